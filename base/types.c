/* SPDX-License-Identifier: Apache-2.0 */
#include <wring/types.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[WRING_DTYPES] = {
    [WRING_F32] = {"f32", 4},   [WRING_F64] = {"f64", 8}, [WRING_F16] = {"f16", 2},
    [WRING_BF16] = {"bf16", 2}, [WRING_I32] = {"i32", 4}, [WRING_I64] = {"i64", 8},
};

static const char *const ops[WRING_OPS] = {
    [WRING_SUM] = "sum",
    [WRING_AVG] = "avg",
    [WRING_MIN] = "min",
    [WRING_MAX] = "max",
};

size_t wring_dtype_bytes(enum wring_dtype dtype)
{
    return (unsigned)dtype < WRING_DTYPES ? dtypes[dtype].bytes : 0;
}

const char *wring_dtype_name(enum wring_dtype dtype)
{
    return (unsigned)dtype < WRING_DTYPES ? dtypes[dtype].name : "?";
}

const char *wring_op_name(enum wring_op op)
{
    return (unsigned)op < WRING_OPS ? ops[op] : "?";
}
