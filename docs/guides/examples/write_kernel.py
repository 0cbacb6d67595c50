"""Reads a brief from standard input and prints the source of a variant of saxpy. A real program uses the brief."""

import sys

SOURCE = """
void saxpy(float a, const float *restrict x, const float *restrict y, float *restrict out) {
    for (long first = 0; first < N; first += WIDTH * UNROLL) {
        __builtin_prefetch(&x[first + PREFETCH]);
        for (long i = first; i < first + WIDTH * UNROLL && i < N; i++) out[i] = a * x[i] + y[i];
    }
}
"""

if "saxpy" not in sys.stdin.read():
    sys.exit("the brief is not about saxpy, the only kernel that this program writes")
sys.stdout.write(SOURCE)
