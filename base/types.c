/* SPDX-License-Identifier: Apache-2.0 */
#include <wring/types.h>

#include <string.h>

#define BIT(op) (1u << (op))
#define ARITHMETIC (BIT(WRING_SUM) | BIT(WRING_AVG) | BIT(WRING_PROD))
#define ORDER (BIT(WRING_MIN) | BIT(WRING_MAX))
#define BITWISE (BIT(WRING_BAND) | BIT(WRING_BOR) | BIT(WRING_BXOR))
#define LOGICAL (BIT(WRING_LAND) | BIT(WRING_LOR))
#define FLOAT (ARITHMETIC | ORDER | BIT(WRING_PREMUL_SUM))
#define INTEGER (ARITHMETIC | ORDER | BITWISE | LOGICAL)

static const struct {
    const char *name;
    size_t bytes, align;
    unsigned ops; /* a bit for each that there is */
} dtypes[WRING_DTYPES] = {
    [WRING_F32] = {"f32", 4, 4, FLOAT},
    [WRING_F64] = {"f64", 8, 8, FLOAT},
    [WRING_F16] = {"f16", 2, 2, FLOAT},
    [WRING_BF16] = {"bf16", 2, 2, FLOAT},
    [WRING_I32] = {"i32", 4, 4, INTEGER},
    [WRING_I64] = {"i64", 8, 8, INTEGER},
    [WRING_I8] = {"i8", 1, 1, INTEGER},
    [WRING_I16] = {"i16", 2, 2, INTEGER},
    [WRING_U8] = {"u8", 1, 1, INTEGER},
    [WRING_U16] = {"u16", 2, 2, INTEGER},
    [WRING_U32] = {"u32", 4, 4, INTEGER},
    [WRING_U64] = {"u64", 8, 8, INTEGER},
    [WRING_BOOL] = {"bool", 1, 1, ORDER | BITWISE | LOGICAL},
    [WRING_BYTE] = {"byte", 1, 1, BITWISE},
    [WRING_COMPLEX64] = {"complex64", 8, 4, ARITHMETIC | BIT(WRING_PREMUL_SUM)},
    [WRING_COMPLEX128] = {"complex128", 16, 8, ARITHMETIC | BIT(WRING_PREMUL_SUM)},
};

static const char *const ops[WRING_OPS] = {
    [WRING_SUM] = "sum",
    [WRING_AVG] = "avg",
    [WRING_MIN] = "min",
    [WRING_MAX] = "max",
    [WRING_PROD] = "prod",
    [WRING_BAND] = "band",
    [WRING_BOR] = "bor",
    [WRING_BXOR] = "bxor",
    [WRING_LAND] = "land",
    [WRING_LOR] = "lor",
    [WRING_PREMUL_SUM] = "premul_sum",
};

static const char *const schemes[WRING_SCHEMES] = {
    [WRING_SCHEME_AUTO] = "auto",
    [WRING_SCHEME_DIVISIBLE] = "divisible",
    [WRING_SCHEME_INDIVISIBLE] = "indivisible",
    [WRING_SCHEME_HIERARCHICAL] = "hierarchical",
    [WRING_SCHEME_HIERARCHICAL_DIVISIBLE] = "hierarchical-divisible",
    [WRING_SCHEME_HIERARCHICAL_INDIVISIBLE] = "hierarchical-indivisible",
    [WRING_SCHEME_RING] = "ring",
};

size_t wring_dtype_bytes(enum wring_dtype dtype)
{
    return (unsigned)dtype < WRING_DTYPES ? dtypes[dtype].bytes : 0;
}

size_t wring_dtype_align(enum wring_dtype dtype)
{
    return (unsigned)dtype < WRING_DTYPES ? dtypes[dtype].align : 0;
}

int wring_op_takes(enum wring_op op, enum wring_dtype dtype)
{
    return (unsigned)op < WRING_OPS && (unsigned)dtype < WRING_DTYPES &&
           (dtypes[dtype].ops & BIT(op)) != 0;
}

const char *wring_dtype_name(enum wring_dtype dtype)
{
    return (unsigned)dtype < WRING_DTYPES ? dtypes[dtype].name : "?";
}

const char *wring_op_name(enum wring_op op)
{
    return (unsigned)op < WRING_OPS ? ops[op] : "?";
}

const char *wring_scheme_name(enum wring_scheme scheme)
{
    return (unsigned)scheme < WRING_SCHEMES ? schemes[scheme] : "?";
}

enum wring_scheme wring_scheme_find(const char *name)
{
    unsigned scheme = 0;
    while (scheme < WRING_SCHEMES && strcmp(schemes[scheme], name) != 0)
        scheme++;
    return (enum wring_scheme)scheme;
}
