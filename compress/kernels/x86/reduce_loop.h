/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The loop of the vector folds, as a macro: each instruction set makes functions of its own of it.
 *
 * WRING_REDUCE(type, op, vector, lanes, bytes) defines type_op(), a wring_reduce_fn, from
 *
 *     vector load_type(const void *at)           `lanes` elements of `bytes` each, any address
 *     vector op_type(vector a, vector next)
 *     vector end_op_type(vector a, float divisor)
 *     void store_type(void *at, vector a)
 *
 * Four vectors are under way at a time; the rest goes through padded copies.
 */
#ifndef WRING_KERNELS_REDUCE_LOOP_H
#define WRING_KERNELS_REDUCE_LOOP_H

#define WRING_REDUCE(type, op, vector, lanes, bytes)                                             \
    static void type##_##op(void *dst, const struct wring_source *src, size_t n_src, uint64_t n, \
                            float divisor)                                                       \
    {                                                                                            \
        const size_t step = (size_t)(lanes) * (bytes);                                           \
        size_t i = 0, end = n * (bytes);                                                         \
        for (; i + 4 * step <= end; i += 4 * step) {                                             \
            vector a[4];                                                                         \
            for (int v = 0; v < 4; v++)                                                          \
                a[v] = load_##type((const char *)src[0].data + i + (size_t)v * step);            \
            for (size_t s = 1; s < n_src; s++)                                                   \
                for (int v = 0; v < 4; v++)                                                      \
                    a[v] = op##_##type(                                                          \
                        a[v], load_##type((const char *)src[s].data + i + (size_t)v * step));    \
            for (int v = 0; v < 4; v++)                                                          \
                store_##type((char *)dst + i + (size_t)v * step,                                 \
                             end_##op##_##type(a[v], divisor));                                  \
        }                                                                                        \
        for (; i < end; i += step) {                                                             \
            unsigned char part[64] = {0};                                                        \
            size_t left = end - i < step ? end - i : step;                                       \
            memcpy(part, (const char *)src[0].data + i, left);                                   \
            vector a = load_##type(part);                                                        \
            for (size_t s = 1; s < n_src; s++) {                                                 \
                memcpy(part, (const char *)src[s].data + i, left);                               \
                a = op##_##type(a, load_##type(part));                                           \
            }                                                                                    \
            store_##type(part, end_##op##_##type(a, divisor));                                   \
            memcpy((char *)dst + i, part, left);                                                 \
        }                                                                                        \
    }

/** WRING_WIDEN(type, lanes) defines type_widen(), a wring_widen_fn, of the same functions. */
#define WRING_WIDEN(type, lanes)                                        \
    static void type##_widen(float *to, const void *from, uint64_t n)   \
    {                                                                   \
        uint64_t i = 0;                                                 \
        for (; i + (lanes) <= n; i += (lanes))                          \
            store_f32(to + i, load_##type((const char *)from + i * 2)); \
        if (i < n) {                                                    \
            unsigned char part[2 * (lanes)] = {0};                      \
            float wide[lanes];                                          \
            memcpy(part, (const char *)from + i * 2, (n - i) * 2);      \
            store_f32(wide, load_##type(part));                         \
            memcpy(to + i, wide, (n - i) * sizeof(*to));                \
        }                                                               \
    }

/** WRING_NARROW(type, vector, lanes): and type_narrow(), a wring_bf16_fn. */
#define WRING_NARROW(type, vector, lanes)                                             \
    static void type##_narrow(void *to, const float *from, uint64_t n, float divisor) \
    {                                                                                 \
        uint64_t i = 0;                                                               \
        for (; i + (lanes) <= n; i += (lanes)) {                                      \
            vector sum = end_sum_##type(load_f32(from + i), divisor);                 \
            store_##type((char *)to + i * 2, sum);                                    \
        }                                                                             \
        if (i < n) {                                                                  \
            unsigned char part[2 * (lanes)];                                          \
            float wide[lanes] = {0};                                                  \
            memcpy(wide, from + i, (n - i) * sizeof(*from));                          \
            store_##type(part, end_sum_##type(load_f32(wide), divisor));              \
            memcpy((char *)to + i * 2, part, (n - i) * 2);                            \
        }                                                                             \
    }

#endif
