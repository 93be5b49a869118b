/* SPDX-License-Identifier: Apache-2.0 */
/* Which MPI library this process has, and what its handles and constants are. */
#include "dropin/mpi/mpi_abi.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARIES 32
#define PATH_BYTES 4096

struct wring_mpi_abi wring_mpi_abi;

static pthread_once_t found = PTHREAD_ONCE_INIT;
static void *library; /* NULL: the search order of all libraries finds it */

/** A predefined type by its names: a symbol of Open MPI's after ompi_mpi_, and values of others.
 *  0: there is none. */
static const struct type_name {
    const char *openmpi;
    uint32_t mpich, standard;
    enum wring_dtype dtype;
    bool reduces;
} type_names[] = {
    /* clang-format off */
    { "float",            0x4c00040a, 0x210, WRING_F32,  true },
    { "double",           0x4c00080b, 0x214, WRING_F64,  true },
    { "signed_char",      0x4c000118, 0x244, WRING_I8,   true },
    { "unsigned_char",    0x4c000102, 0x245, WRING_U8,   true },
    { "short",            0x4c000203, 0x208, WRING_I16,  true },
    { "unsigned_short",   0x4c000204, 0x20c, WRING_U16,  true },
    { "int",              0x4c000405, 0x209, WRING_I32,  true },
    { "unsigned",         0x4c000406, 0x20d, WRING_U32,  true },
    { "long",             0x4c000807, 0x20a, WRING_I64,  true },
    { "unsigned_long",    0x4c000808, 0x20e, WRING_U64,  true },
    { "long_long_int",    0x4c000809, 0x20b, WRING_I64,  true },
    { "unsigned_long_long", 0x4c000819, 0x20f, WRING_U64, true },
    { "int8_t",           0x4c000137, 0x240, WRING_I8,   true },
    { "int16_t",          0x4c000238, 0x248, WRING_I16,  true },
    { "int32_t",          0x4c000439, 0x250, WRING_I32,  true },
    { "int64_t",          0x4c00083a, 0x258, WRING_I64,  true },
    { "uint8_t",          0x4c00013b, 0x241, WRING_U8,   true },
    { "uint16_t",         0x4c00023c, 0x249, WRING_U16,  true },
    { "uint32_t",         0x4c00043d, 0x251, WRING_U32,  true },
    { "uint64_t",         0x4c00083e, 0x259, WRING_U64,  true },
    { "aint",             0x4c000843, 0x201, WRING_I64,  true },
    { "offset",           0x4c000844, 0x203, WRING_I64,  true },
    { "count",            0x4c000845, 0x202, WRING_I64,  true },
    { "c_bool",           0x4c00013f, 0x238, WRING_BOOL, true },
    { "cxx_bool",         0x4c000133, 0x239, WRING_BOOL, true },
    { "byte",             0x4c00010d, 0x247, WRING_BYTE, true },
    { "c_float_complex",  0x4c000840, 0x212, WRING_COMPLEX64,  true },
    { "cxx_cplex",        0x4c000834, 0x213, WRING_COMPLEX64,  true },
    { "c_double_complex", 0x4c001041, 0x216, WRING_COMPLEX128, true },
    { "cxx_dblcplex",     0x4c001035, 0x217, WRING_COMPLEX128, true },
    { "integer",          0x4c00041b, 0x219, WRING_I32,  true },
    { "integer1",         0x4c00012d, 0x2c1, WRING_I8,   true },
    { "integer2",         0x4c00022f, 0x2c9, WRING_I16,  true },
    { "integer4",         0x4c000430, 0x2d1, WRING_I32,  true },
    { "integer8",         0x4c000831, 0x2d9, WRING_I64,  true },
    { "real",             0x4c00041c, 0x21a, WRING_F32,  true },
    { "real4",            0x4c000427, 0x2d2, WRING_F32,  true },
    { "real8",            0x4c000829, 0x2da, WRING_F64,  true },
    { "dblprec",          0x4c00081f, 0x21c, WRING_F64,  true },
    { "cplex",            0x4c00081e, 0x21b, WRING_COMPLEX64,  true },
    { "complex8",         0x4c000828, 0x2db, WRING_COMPLEX64,  true },
    { "complex16",        0x4c00102a, 0x2e3, WRING_COMPLEX128, true },
    { "dblcplex",         0x4c001022, 0x21d, WRING_COMPLEX128, true },
    { NULL,               0x4c000246, 0,     WRING_F16,  true },
    { NULL,               0x4c00024c, 0,     WRING_BF16, true },
    { "char",             0x4c000101, 0x243, WRING_BYTE, false },
    { "character",        0x4c00011a, 0x21e, WRING_BYTE, false },
    { "packed",           0x4c00010f, 0x207, WRING_BYTE, false },
    { "wchar",            0x4c00040e, 0x23c, WRING_BYTE, false },
    { "logical",          0x4c00041d, 0x218, WRING_BYTE, false },
    { "logical1",         0x4c000147, 0x2c0, WRING_BYTE, false },
    { "logical2",         0x4c000248, 0x2c8, WRING_BYTE, false },
    { "logical4",         0x4c000449, 0x2d0, WRING_BYTE, false },
    { "logical8",         0x4c00084a, 0x2d8, WRING_BYTE, false },
    { "long_double",      0x4c00100c, 0x220, WRING_BYTE, false },
    { "c_long_double_complex", 0x4c002042, 0x224, WRING_BYTE, false },
    { "2int",             0x4c000816, 0x22b, WRING_BYTE, false },
    { "2integer",         0x4c000820, 0x232, WRING_BYTE, false },
    { "2real",            0x4c000821, 0x230, WRING_BYTE, false },
    { "2dblprec",         0x4c001023, 0x231, WRING_BYTE, false },
    /* clang-format on */
};

/** The operations that wring has. Averages and factors are none of MPI's. */
static const struct op_name {
    const char *openmpi;
    uint32_t mpich, standard;
    enum wring_op op;
} op_names[] = {
    {"sum", 0x58000003, 0x21, WRING_SUM},   {"max", 0x58000001, 0x23, WRING_MAX},
    {"min", 0x58000002, 0x22, WRING_MIN},   {"prod", 0x58000004, 0x24, WRING_PROD},
    {"land", 0x58000005, 0x30, WRING_LAND}, {"band", 0x58000006, 0x28, WRING_BAND},
    {"lor", 0x58000007, 0x31, WRING_LOR},   {"bor", 0x58000008, 0x29, WRING_BOR},
    {"bxor", 0x5800000a, 0x2a, WRING_BXOR},
};

struct candidates {
    char paths[LIBRARIES][PATH_BYTES];
    size_t n;
};

static int note_library(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct candidates *candidates = arg;
    const char *slash = strrchr(info->dlpi_name, '/');
    (void)bytes;
    if (slash != NULL && strstr(slash, "mpi") != NULL && candidates->n < LIBRARIES &&
        strlen(info->dlpi_name) < PATH_BYTES)
        strcpy(candidates->paths[candidates->n++], info->dlpi_name);
    return 0;
}

/** A program that opens its MPI itself, as Python does, may keep it from others' sight. */
static void *open_hidden_library(void)
{
    void *handle = NULL;
    struct candidates *candidates = calloc(1, sizeof(*candidates));

    if (candidates == NULL)
        return NULL;
    dl_iterate_phdr(note_library, candidates);
    for (size_t i = 0; i < candidates->n && handle == NULL; i++) {
        handle = dlopen(candidates->paths[i], RTLD_LAZY | RTLD_NOLOAD);
        /* a function that we do not have, as we are among them */
        if (handle != NULL && dlsym(handle, "PMPI_Comm_size") == NULL) {
            dlclose(handle);
            handle = NULL;
        }
    }
    free(candidates);
    return handle;
}

/** An object, of which a program may have the copy that counts: it comes first then. */
static void *find_object(const char *name)
{
    return dlsym(library != NULL ? library : RTLD_DEFAULT, name);
}

/** A function of the library's own, behind ours. Open MPI 4 has persistent ones as MPIX_. */
static void *find_function(const char *name)
{
    char symbol[64];
    snprintf(symbol, sizeof(symbol), "PMPI_%s", name);
    void *function = dlsym(library != NULL ? library : RTLD_NEXT, symbol);
    if (function != NULL)
        return function;
    snprintf(symbol, sizeof(symbol), "PMPIX_%s", name);
    return dlsym(library != NULL ? library : RTLD_NEXT, symbol);
}

static void take_functions(void)
{
    struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    const char *missing = NULL;
    void *symbol;

#define TAKE(name, args)                          \
    symbol = find_function(#name);                \
    memcpy(&pmpi->name, &symbol, sizeof(symbol)); \
    if (symbol == NULL)                           \
        missing = "PMPI_" #name;
    WRING_MPI_LATER_FUNCTIONS(TAKE)
    missing = NULL;
    WRING_MPI_FUNCTIONS(TAKE)
#undef TAKE
    if (missing == NULL)
        return;
    fprintf(stderr,
            "wring: mpi: the program calls MPI, but none of its libraries has %s: wring takes Open "
            "MPI 4 and 5, MPICH 4 and 5, and libraries with their ABI or that of MPI 5; unset "
            "LD_PRELOAD for others\n",
            missing);
    abort();
}

static enum wring_mpi_kind find_kind(void)
{
    int major = -1, minor = -1;
    if (wring_mpi_abi.pmpi.Abi_get_version != NULL &&
        wring_mpi_abi.pmpi.Abi_get_version(&major, &minor) == MPI_SUCCESS && major >= 1)
        return WRING_MPI_STANDARD;
    return find_object("ompi_mpi_comm_world") != NULL ? WRING_MPI_OPENMPI : WRING_MPI_MPICH;
}

static uintptr_t openmpi_object(const char *prefix, const char *name)
{
    char symbol[64];
    snprintf(symbol, sizeof(symbol), "%s%s", prefix, name);
    return (uintptr_t)find_object(symbol);
}

static void take_openmpi(struct wring_mpi_abi *abi)
{
    abi->name = "Open MPI";
    abi->comm_world = openmpi_object("ompi_mpi_", "comm_world");
    abi->comm_self = openmpi_object("ompi_mpi_", "comm_self");
    abi->comm_null = openmpi_object("ompi_mpi_", "comm_null");
    abi->request_null = openmpi_object("ompi_", "request_null");
    abi->errors_return = openmpi_object("ompi_mpi_", "errors_return");
    abi->byte = openmpi_object("ompi_mpi_", "byte");
    abi->u64 = openmpi_object("ompi_mpi_", "uint64_t");
    abi->sum = openmpi_object("ompi_mpi_op_", "sum");
    abi->in_place = (void *)1;
    abi->status_ignore = NULL;
    abi->handle_bytes = 8;
    abi->status_bytes = 24;
    abi->status_source = 0;
    abi->status_tag = 4;
    abi->status_error = 8;
    abi->any_source = -1;
    abi->any_tag = -1;
    abi->err_request = 7;
    abi->err_other = 16;
    abi->err_in_status = 18;
    abi->err_pending = 19;
    abi->err_no_mem = 39;
}

static void take_mpich(struct wring_mpi_abi *abi)
{
    abi->name = "MPICH";
    abi->comm_null = 0x04000000;
    abi->comm_world = 0x44000000;
    abi->comm_self = 0x44000001;
    abi->request_null = 0x2c000000;
    abi->errors_return = 0x54000001;
    abi->byte = 0x4c00010d;
    abi->u64 = 0x4c00083e;
    abi->sum = 0x58000003;
    abi->in_place = (void *)-1;
    abi->status_ignore = (void *)1;
    abi->handle_bytes = 4;
    abi->status_bytes = 20;
    abi->status_source = 8;
    abi->status_tag = 12;
    abi->status_error = 16;
    abi->any_source = -2;
    abi->any_tag = -1;
    abi->err_other = 15;
    abi->err_in_status = 17;
    abi->err_pending = 18;
    abi->err_request = 19;
    abi->err_no_mem = 34;
}

static void take_standard(struct wring_mpi_abi *abi)
{
    abi->name = "MPI 5 standard ABI";
    abi->comm_null = 0x100;
    abi->comm_world = 0x101;
    abi->comm_self = 0x102;
    abi->request_null = 0x180;
    abi->errors_return = 0x143;
    abi->byte = 0x247;
    abi->u64 = 0x259;
    abi->sum = 0x21;
    abi->in_place = (void *)1;
    abi->status_ignore = NULL;
    abi->handle_bytes = 8;
    abi->status_bytes = 32;
    abi->status_source = 0;
    abi->status_tag = 4;
    abi->status_error = 8;
    abi->any_source = -1;
    abi->any_tag = -2;
    abi->err_request = 7;
    abi->err_other = 16;
    abi->err_pending = 18;
    abi->err_in_status = 19;
    abi->err_no_mem = 39;
}

static void take_ops(struct wring_mpi_abi *abi)
{
    for (size_t i = 0; i < sizeof(op_names) / sizeof(op_names[0]); i++) {
        const struct op_name *name = &op_names[i];
        uintptr_t handle = abi->kind == WRING_MPI_MPICH ? name->mpich
                           : abi->kind == WRING_MPI_STANDARD
                               ? name->standard
                               : openmpi_object("ompi_mpi_op_", name->openmpi);
        if (handle != 0) {
            abi->ops[abi->n_ops].handle = handle;
            abi->ops[abi->n_ops++].op = name->op;
        }
    }
}

static void find_abi(void)
{
    struct wring_mpi_abi *abi = &wring_mpi_abi;

    if (find_function("Comm_size") == NULL)
        library = open_hidden_library();
    take_functions();
    abi->kind = find_kind();
    abi->undefined = -32766;
    switch (abi->kind) {
    case WRING_MPI_MPICH:
        take_mpich(abi);
        break;
    case WRING_MPI_OPENMPI:
        take_openmpi(abi);
        break;
    case WRING_MPI_STANDARD:
        take_standard(abi);
        break;
    }
    take_ops(abi);
}

void wring_mpi_find(void)
{
    pthread_once(&found, find_abi);
}

const struct wring_mpi_abi *wring_mpi_library(void)
{
    wring_mpi_find();
    return &wring_mpi_abi;
}

const char *wring_mpi_library_path(void)
{
    Dl_info info;
    return dladdr((const void *)(uintptr_t)&wring_mpi_library, &info) != 0 ? info.dli_fname : "?";
}

const char *wring_mpi_other_copy(void)
{
    const char *(*path)(void) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "wring_mpi_library_path");
    memcpy(&path, &symbol, sizeof(symbol));
    return path != NULL && path != wring_mpi_library_path ? path() : NULL;
}

static uintptr_t handle_of(const struct type_name *name)
{
    switch (wring_mpi_abi.kind) {
    case WRING_MPI_MPICH:
        return name->mpich;
    case WRING_MPI_STANDARD:
        return name->standard;
    case WRING_MPI_OPENMPI:
        break;
    }
    return name->openmpi != NULL ? openmpi_object("ompi_mpi_", name->openmpi) : 0;
}

/** MPICH writes the size of a predefined type into its handle. */
static bool measure_mpich_type(uintptr_t handle, int *bytes, ptrdiff_t *extent)
{
    *bytes = (int)(handle >> 8 & 0xff);
    *extent = *bytes;
    return handle >> 24 == 0x4c;
}

static bool measure_type(uintptr_t handle, int *bytes, ptrdiff_t *extent)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    ptrdiff_t lower = 0;

    if (wring_mpi_abi.kind == WRING_MPI_MPICH)
        return measure_mpich_type(handle, bytes, extent);
    return pmpi->Type_size(handle, bytes) == MPI_SUCCESS &&
           pmpi->Type_get_extent(handle, &lower, extent) == MPI_SUCCESS && lower == 0;
}

/** What this library calls so has the size that it has here: Fortran's types may have others. */
static void learn_type(const struct type_name *name)
{
    uintptr_t handle = handle_of(name);
    ptrdiff_t extent = 0;
    int bytes = 0;

    if (handle == 0 || !measure_type(handle, &bytes, &extent) || bytes <= 0)
        return;
    bool fits = (size_t)bytes == wring_dtype_bytes(name->dtype);
    *wring_mpi_type_slot(handle) = (struct wring_mpi_type){
        .handle = handle,
        .dtype = fits ? name->dtype : WRING_BYTE,
        .reduces = fits && name->reduces,
        .bytes = (uint32_t)bytes,
        .dense = extent == bytes,
    };
}

/** Types that the library was built without are no error of the program's. */
void wring_mpi_learn_types(void)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    const uintptr_t comms[] = {wring_mpi_abi.comm_world, wring_mpi_abi.comm_self};
    uintptr_t own[2] = {0, 0};

    for (size_t i = 0; i < 2; i++) {
        pmpi->Comm_get_errhandler(comms[i], &own[i]);
        pmpi->Comm_set_errhandler(comms[i], wring_mpi_abi.errors_return);
    }
    for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++)
        learn_type(&type_names[i]);
    for (size_t i = 0; i < 2; i++) {
        pmpi->Comm_set_errhandler(comms[i], wring_mpi_read_handle(&own[i], 0));
        pmpi->Errhandler_free(&own[i]);
    }
}
