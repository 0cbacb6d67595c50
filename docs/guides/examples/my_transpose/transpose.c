/* Transpose of a row-major matrix, tile by tile. The file can be compiled without options; every number can be set with
 * -D. */
#ifndef ROWS
#define ROWS 512
#endif
#ifndef COLUMNS
#define COLUMNS 512
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 1
#endif
#ifndef TILE_COLUMNS
#define TILE_COLUMNS COLUMNS
#endif
#ifndef ROWS_INNERMOST
#define ROWS_INNERMOST 0
#endif

#define MINIMUM(a, b) ((a) < (b) ? (a) : (b))

void transpose(const float *restrict matrix, float *restrict out) {
    for (int row = 0; row < ROWS; row += TILE_ROWS)
        for (int column = 0; column < COLUMNS; column += TILE_COLUMNS) {
            const int last_row = MINIMUM(row + TILE_ROWS, ROWS);
            const int last_column = MINIMUM(column + TILE_COLUMNS, COLUMNS);
#if ROWS_INNERMOST
            for (int c = column; c < last_column; ++c)
                for (int r = row; r < last_row; ++r) out[c * ROWS + r] = matrix[r * COLUMNS + c];
#else
            for (int r = row; r < last_row; ++r)
                for (int c = column; c < last_column; ++c) out[c * ROWS + r] = matrix[r * COLUMNS + c];
#endif
        }
}
