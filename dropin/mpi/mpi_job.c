/* SPDX-License-Identifier: Apache-2.0 */
/* The session of a process: opened in MPI_Init, closed in MPI_Finalize, whichever way the program
 * calls these. */
#include "dropin/mpi/mpi_own.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/host.h"
#include "runtime/session/session.h"
#include "transport/interface.h"
#include <wring/bootstrap.h>

#define PAUSE_NS 20000
#define KEY_BYTES 16
#define HOST_BYTES 96

struct wring_mpi_own wring_mpi_own;

static _Thread_local bool silent;

void wring_mpi_be_silent(void)
{
    silent = true;
}

void wring_mpi_poke(void *arg)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    int flag;

    (void)arg;
    if (!silent) /* nobody sends there: what counts is that the MPI looks for arrivals */
        abi->pmpi.Iprobe(abi->any_source, abi->any_tag, wring_mpi_own.control, &flag,
                         abi->status_ignore);
}

/* ---- the MPI as bootstrap ---- */

struct mpi_bootstrap {
    struct wring_bootstrap base;
};

/** Wait for the MPI's own request. What it uses is left to it if it does not end in time. */
static enum wring_status await_mpi(void *request, uint64_t deadline_ns,
                                   const struct wring_cancel *cancel)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    const struct timespec pause = {0, PAUSE_NS};
    int done = 0;

    for (;;) {
        if (pmpi->Test(request, &done, wring_mpi_abi.status_ignore) != MPI_SUCCESS)
            return WRING_ERR_PEER;
        if (done)
            return WRING_OK;
        if (cancel != NULL && cancel->cancelled(cancel->arg))
            return WRING_ERR_CLOSED;
        if (wring_now_ns() > deadline_ns) {
            wring_error(&wring_mpi_own.log,
                        "a rank did not come to exchange addresses in WRING_JOIN_TIMEOUT: all "
                        "ranks need libwring_mpi.so in LD_PRELOAD (mpirun -x or -genv pass it on)");
            return WRING_ERR_PEER;
        }
        nanosleep(&pause, NULL);
    }
}

/** Memory of an exchange. */
struct gathering {
    uint32_t size;
    int own_bytes;
    int *bytes, *places; /* [size] each */
    uint8_t *own;
    struct wring_blobs blobs;
};

static void gathering_finish(struct gathering *gathering)
{
    free(gathering->bytes);
    free(gathering->places);
    free(gathering->own);
    wring_blobs_finish(&gathering->blobs);
}

static bool gathering_init(struct gathering *gathering, uint32_t size, const void *blob,
                           size_t bytes)
{
    *gathering = (struct gathering){.size = size, .own_bytes = (int)bytes, .blobs = {.n = size}};
    gathering->bytes = calloc(size, sizeof(int));
    gathering->places = calloc(size, sizeof(int));
    gathering->own = malloc(bytes + 1);
    gathering->blobs.offsets = calloc(size + 1, sizeof(size_t));
    if (gathering->bytes == NULL || gathering->places == NULL || gathering->own == NULL ||
        gathering->blobs.offsets == NULL)
        return false;
    if (bytes > 0)
        memcpy(gathering->own, blob, bytes);
    return true;
}

static enum wring_status gather_bytes(struct gathering *gathering, uint64_t deadline_ns,
                                      const struct wring_cancel *cancel)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    uintptr_t request = 0;
    size_t total = 0;
    int failed =
        abi->pmpi.Iallgather(&gathering->own_bytes, sizeof(int), abi->byte, gathering->bytes,
                             sizeof(int), abi->byte, wring_mpi_own.control, &request);
    enum wring_status status =
        failed == MPI_SUCCESS ? await_mpi(&request, deadline_ns, cancel) : WRING_ERR_PEER;

    for (uint32_t i = 0; status == WRING_OK && i < gathering->size; i++) {
        if (gathering->bytes[i] < 0 || total + (size_t)gathering->bytes[i] > INT_MAX)
            return WRING_ERR_FRAME;
        gathering->places[i] = (int)total;
        gathering->blobs.offsets[i + 1] = total += (size_t)gathering->bytes[i];
    }
    return status;
}

static enum wring_status gather_blobs(struct gathering *gathering, uint64_t deadline_ns,
                                      const struct wring_cancel *cancel)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    uintptr_t request = 0;

    gathering->blobs.storage = malloc(gathering->blobs.offsets[gathering->size] + 1);
    if (gathering->blobs.storage == NULL)
        return WRING_ERR_NO_MEMORY;
    int failed = abi->pmpi.Iallgatherv(
        gathering->own, gathering->own_bytes, abi->byte, gathering->blobs.storage, gathering->bytes,
        gathering->places, abi->byte, wring_mpi_own.control, &request);
    return failed == MPI_SUCCESS ? await_mpi(&request, deadline_ns, cancel) : WRING_ERR_PEER;
}

static enum wring_status mpi_exchange(struct wring_bootstrap *bootstrap, const void *blob,
                                      size_t bytes, uint64_t deadline_ns,
                                      const struct wring_cancel *cancel, struct wring_blobs *out)
{
    struct gathering gathering;
    if (bytes > WRING_BLOB_MAX)
        return WRING_ERR_INVALID;
    if (!gathering_init(&gathering, bootstrap->size, blob, bytes)) {
        gathering_finish(&gathering);
        return WRING_ERR_NO_MEMORY;
    }
    enum wring_status status = gather_bytes(&gathering, deadline_ns, cancel);
    if (status == WRING_OK)
        status = gather_blobs(&gathering, deadline_ns, cancel);
    if (status == WRING_OK) {
        *out = gathering.blobs;
        gathering.blobs = (struct wring_blobs){0};
    }
    if (status == WRING_OK || status == WRING_ERR_NO_MEMORY || status == WRING_ERR_FRAME)
        gathering_finish(&gathering); /* else the MPI may still write there */
    return status;
}

static enum wring_status mpi_check(struct wring_bootstrap *bootstrap)
{
    (void)bootstrap;
    return WRING_OK;
}

static const char *mpi_address(struct wring_bootstrap *bootstrap)
{
    (void)bootstrap;
    return wring_mpi_own.address;
}

static void mpi_close(struct wring_bootstrap *bootstrap)
{
    (void)bootstrap;
}

static const struct wring_bootstrap_ops mpi_ops = {
    .name = "MPI",
    .exchange = mpi_exchange,
    .check = mpi_check,
    .local_address = mpi_address,
    .close = mpi_close,
};

static struct mpi_bootstrap bootstrap;

/* ---- errors ---- */

static pthread_mutex_t codes_mutex = PTHREAD_MUTEX_INITIALIZER;

int wring_mpi_code(enum wring_status status)
{
    static int codes[64];
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    char text[128];
    int class, code = wring_mpi_abi.err_other;

    if (status == WRING_OK)
        return MPI_SUCCESS;
    if (status == WRING_ERR_NO_MEMORY)
        return wring_mpi_abi.err_no_mem;
    pthread_mutex_lock(&codes_mutex);
    if (codes[status] == 0 && pmpi->Add_error_class(&class) == MPI_SUCCESS &&
        pmpi->Add_error_code(class, &code) == MPI_SUCCESS) {
        snprintf(text, sizeof(text), "wring: %s", wring_status_text(status));
        pmpi->Add_error_string(code, text);
        codes[status] = code;
    }
    code = codes[status] != 0 ? codes[status] : code;
    pthread_mutex_unlock(&codes_mutex);
    return code;
}

static void say_why(enum wring_status status)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;

    if (wring_mpi_own.session != NULL &&
        wring_session_error(wring_mpi_own.session, &detail) != WRING_OK)
        wring_error(&wring_mpi_own.log, "%s", detail.text);
    else
        wring_error(&wring_mpi_own.log, "a call failed: %s", wring_status_text(status));
}

int wring_mpi_fail(wring_mpi_handle_t comm, enum wring_status status)
{
    int code = wring_mpi_code(status);
    say_why(status);
    wring_mpi_abi.pmpi.Comm_call_errhandler(comm, code);
    return code;
}

/* ---- the end ---- */

/** MPI_Finalize begins with the attributes of MPI_COMM_SELF; the MPI works until they are gone. */
static int on_finalize(wring_mpi_handle_t comm, int keyval, void *value, void *extra)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    (void)comm, (void)keyval, (void)value, (void)extra;

    if (own->session == NULL)
        return MPI_SUCCESS;
    if (own->stats)
        wring_mpi_counts_print();
    /* nobody leaves while others are in a call that it has a part in */
    wring_mpi_abi.pmpi.Barrier(own->control);
    wring_mpi_comms_stop();
    wring_session_close(own->session);
    own->session = NULL;
    return MPI_SUCCESS;
}

static int copy_nothing(wring_mpi_handle_t comm, int keyval, void *extra, void *in, void *out,
                        int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static bool watch_finalize(void)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    int keyval;
    return abi->pmpi.Comm_create_keyval(copy_nothing, on_finalize, &keyval, NULL) == MPI_SUCCESS &&
           abi->pmpi.Comm_set_attr(abi->comm_self, keyval, &wring_mpi_own) == MPI_SUCCESS;
}

/* ---- the beginning ---- */

static enum wring_status read_settings(void)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    struct wring_config *config = malloc(sizeof(*config));
    if (config == NULL)
        return WRING_ERR_NO_MEMORY;
    own->log = (struct wring_log){.level = WRING_LOG_WARN};
    struct wring_log quiet = {.level = WRING_LOG_ERROR}; /* the session warns of the same */
    enum wring_status status = wring_config_load(config, &quiet);
    if (status == WRING_OK) {
        own->log.level = wring_config_log_level(config);
        snprintf(own->codec, sizeof(own->codec), "%s", config->mpi_codec);
        own->codec_min = config->mpi_codec_min;
        own->stats = config->stats != 0;
        snprintf(own->iface, sizeof(own->iface), "%s", config->iface);
        if (strcmp(own->codec, "none") == 0)
            own->codec[0] = '\0';
    }
    free(config);
    return status;
}

/** The MPI's own channels carry a key that nobody else knows. @param key  out, as text */
static enum wring_status share_key(char key[2 * KEY_BYTES + 1])
{
    uint8_t random[KEY_BYTES];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return WRING_ERR_SYSTEM;
    if (wring_mpi_abi.pmpi.Bcast(random, sizeof(random), wring_mpi_abi.byte, 0,
                                 wring_mpi_own.control) != MPI_SUCCESS)
        return WRING_ERR_PEER;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(key + 2 * i, 3, "%02x", random[i]);
    return WRING_OK;
}

/** Are all ranks on one host? @return false: the MPI failed */
static bool find_hosts(bool *one)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    char host[HOST_BYTES] = "", first[HOST_BYTES];
    uint64_t other, others;

    if (!wring_host_identity(host, sizeof(host)))
        snprintf(host, sizeof(host), "rank %" PRIu32, wring_mpi_own.rank);
    memcpy(first, host, sizeof(host));
    if (abi->pmpi.Bcast(first, sizeof(first), abi->byte, 0, wring_mpi_own.control) != MPI_SUCCESS)
        return false;
    other = strcmp(first, host) != 0;
    bool told = abi->pmpi.Allreduce(&other, &others, 1, abi->u64, abi->sum,
                                    wring_mpi_own.control) == MPI_SUCCESS;
    *one = told && others == 0;
    return told;
}

/** Bridges of containers and virtual machines rarely lead to another host. */
static enum wring_status find_address(void)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    bool one;

    if (!find_hosts(&one))
        return WRING_ERR_PEER;
    if (one)
        return WRING_OK;
    return wring_interface_find(&own->log,
                                own->iface[0] != '\0' ? own->iface
                                                      : "^docker,br-,virbr,veth,cni,flannel,cali,"
                                                        "lxc,podman",
                                "", own->address);
}

static bool has_own_key(void)
{
    return wring_config_foreign("WRING_KEY") != NULL ||
           wring_config_foreign("WRING_KEY_FILE") != NULL;
}

static enum wring_status open_session(void)
{
    static const char *const settings[] = {"WRING_PROGRESS=thread", NULL};
    struct wring_mpi_own *own = &wring_mpi_own;
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    char key[2 * KEY_BYTES + 1];
    enum wring_status status = share_key(key);
    if (status == WRING_OK)
        status = find_address();
    if (status != WRING_OK)
        return status;
    bootstrap.base = (struct wring_bootstrap){&mpi_ops, own->rank, own->size, -1};
    params.bootstrap = &bootstrap.base;
    params.settings = settings;
    params.key = has_own_key() ? NULL : key;
    status = wring_session_open(&params, &own->session);
    if (status != WRING_OK)
        return status;
    wring_progress_set_aside(own->session->progress, (struct wring_aside){wring_mpi_poke, NULL});
    return wring_mpi_comms_open();
}

/** What we use of the MPI fails by codes: its errors are not the program's. */
static bool take_control(void)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    uintptr_t control = 0, alone = 0, group = 0;

    if (abi->pmpi.Comm_dup(abi->comm_world, &control) != MPI_SUCCESS ||
        abi->pmpi.Comm_dup(abi->comm_self, &alone) != MPI_SUCCESS ||
        abi->pmpi.Comm_group(abi->comm_world, &group) != MPI_SUCCESS)
        return false;
    own->control = wring_mpi_read_handle(&control, 0);
    own->alone = wring_mpi_read_handle(&alone, 0);
    own->group = wring_mpi_read_handle(&group, 0);
    return abi->pmpi.Comm_set_errhandler(own->control, abi->errors_return) == MPI_SUCCESS;
}

int wring_mpi_open(void)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    const struct wring_mpi_abi *abi = wring_mpi_library();
    int rank, size;

    if (own->session != NULL || abi->pmpi.Comm_size(abi->comm_world, &size) != MPI_SUCCESS ||
        abi->pmpi.Comm_rank(abi->comm_world, &rank) != MPI_SUCCESS)
        return MPI_SUCCESS;
    own->rank = (uint32_t)rank;
    own->size = (uint32_t)size;
    wring_mpi_learn_types();
    enum wring_status status = read_settings();
    if (status == WRING_OK && size > 1)
        status = take_control() && watch_finalize() ? open_session() : WRING_ERR_SYSTEM;
    if (status == WRING_OK)
        return MPI_SUCCESS;
    wring_error(&own->log,
                "no session for rank %d of %d: %s; leave libwring_mpi.so out of LD_PRELOAD to run "
                "without wring",
                rank, size, wring_status_text(status));
    abi->pmpi.Comm_call_errhandler(abi->comm_world, abi->err_other);
    return abi->err_other;
}

WRING_MPI_EXPORT(Init, int *argc, char ***argv)
{
    int code = wring_mpi_library()->pmpi.Init(argc, argv);
    return code == MPI_SUCCESS ? wring_mpi_open() : code;
}

WRING_MPI_EXPORT(Init_thread, int *argc, char ***argv, int required, int *provided)
{
    int code = wring_mpi_library()->pmpi.Init_thread(argc, argv, required, provided);
    return code == MPI_SUCCESS ? wring_mpi_open() : code;
}
