void sort(const int *restrict keys, int *restrict order) {
    const int n = 1 << LOG;
    for (int i = 0; i < n; i++) order[i] = i;
    for (int size = 2; size <= n; size *= 2)
        for (int step = size / 2; step; step /= 2)
            for (int i = 0; i < n; i++) {
                const int j = i ^ step;
                if (j < i) continue;
                const int a = order[i], b = order[j], swap = (keys[a] > keys[b]) == !(i & size);
#if BRANCHLESS
                order[i] = swap ? b : a, order[j] = swap ? a : b;
#else
                if (swap && keys[a] != keys[b]) order[i] = b, order[j] = a;
#endif
            }
}
