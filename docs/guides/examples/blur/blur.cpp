// A 3x3 blur of an image; at the borders the nearest pixels are repeated.
#include <algorithm>

#ifndef H
#define H 512
#endif
#ifndef W
#define W 512
#endif
#ifndef TILE_H
#define TILE_H 16
#endif

static float row_sum(const float *row, int x) {
    return row[std::max(x - 1, 0)] + 2 * row[x] + row[std::min(x + 1, W - 1)];
}

extern "C" void blur(const float *image, float *out) {
#pragma omp parallel for schedule(static)
    for (int top = 0; top < H; top += TILE_H)
        for (int y = top; y < std::min(top + TILE_H, H); y++) {
            const float *above = image + std::max(y - 1, 0) * W, *below = image + std::min(y + 1, H - 1) * W;
            for (int x = 0; x < W; x++)
                out[y * W + x] = (row_sum(above, x) + 2 * row_sum(image + y * W, x) + row_sum(below, x)) / 16;
        }
}
