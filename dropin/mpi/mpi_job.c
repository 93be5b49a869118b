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

static bool set_finalize_callback(void)
{
    const struct wring_mpi_abi *abi = &wring_mpi_abi;
    int keyval;
    return abi->pmpi.Comm_create_keyval(copy_nothing, on_finalize, &keyval, NULL) == MPI_SUCCESS &&
           abi->pmpi.Comm_set_attr(abi->comm_self, keyval, &wring_mpi_own) == MPI_SUCCESS;
}

/* ---- the beginning ---- */

/* The first error while the session opens is why it does not: it is told to all ranks, and one of
 * them says it. */
static pthread_mutex_t cause_mutex = PTHREAD_MUTEX_INITIALIZER;
static char cause[sizeof(((struct wring_mpi_verdict *)NULL)->text)];
static bool opening;

static void log_or_keep_cause(void *arg, enum wring_log_level level, const char *module,
                              const char *text)
{
    struct wring_log plain = {.level = level};
    (void)arg;
    pthread_mutex_lock(&cause_mutex);
    bool first = opening && level == WRING_LOG_ERROR && cause[0] == '\0';
    if (first)
        snprintf(cause, sizeof(cause), "%s: %s", module, text);
    pthread_mutex_unlock(&cause_mutex);
    if (!first)
        wring_log_line(&plain, level, module, "%s", text);
}

static void set_opening(bool value)
{
    pthread_mutex_lock(&cause_mutex);
    opening = value;
    pthread_mutex_unlock(&cause_mutex);
}

/* Sums, in the order of enum wring_mpi_call_kind, and called as WRING_STATS calls them. Nobody asks
 * for a communicator's name, since each rank may give it another. */
static const struct wring_call_codecs_dropin coded = {
    "libwring_mpi.so",
    "WRING_MPI_CODEC",
    "WRING_MPI_CODEC_MIN",
    {{"allreduce", true},
     {"reduce", true},
     {"reduce_scatter", false},
     {"reduce_scatter_block", false}},
};

static enum wring_status read_codecs(const struct wring_config *config)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    enum wring_status status = wring_call_codecs_read(
        &own->codecs, &coded, config, config->mpi_codec, config->mpi_codec_min, &own->log);
    if (status == WRING_OK)
        status = wring_call_codecs_check(&own->codecs, &coded, config->cpu, &own->log);
    if (status == WRING_OK && own->rank == 0)
        wring_call_codecs_warn(&own->codecs, &coded, config->codec_rules, &own->log);
    return status;
}

static enum wring_status read_settings(void)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    own->log = (struct wring_log){log_or_keep_cause, NULL, WRING_LOG_WARN};
    struct wring_config *config = calloc(1, sizeof(*config));
    if (config == NULL)
        return WRING_ERR_NO_MEMORY;
    struct wring_log quiet = {log_or_keep_cause, NULL,
                              WRING_LOG_ERROR}; /* the session warns of the same */
    enum wring_status status = wring_config_load(config, &quiet);
    own->join_timeout_ns = config->join_timeout_ns; /* whatever else is wrong */
    if (status == WRING_OK) {
        own->log.level = wring_config_log_level(config);
        own->stats = config->stats != 0;
        snprintf(own->iface, sizeof(own->iface), "%s", config->iface);
        status = read_codecs(config);
    }
    free(config);
    return status;
}

/** What ranks tell each other before there is a session. */
struct beginning {
    uint8_t key[KEY_BYTES]; /* rank 0's counts: the MPI's own channels carry it to nobody else */
    char host[HOST_BYTES];
};

/** @param key     out, as text
 *  @param one  out: all ranks are on one host */
static enum wring_status exchange_key_and_hosts(char key[2 * KEY_BYTES + 1], bool *one)
{
    struct wring_bootstrap *bootstrap = wring_mpi_bootstrap();
    struct beginning own = {0}, first, other;
    struct wring_blobs blobs;

    if (getrandom(own.key, sizeof(own.key), 0) != sizeof(own.key))
        return WRING_ERR_SYSTEM;
    if (!wring_host_identity(own.host, sizeof(own.host)))
        snprintf(own.host, sizeof(own.host), "rank %" PRIu32, wring_mpi_own.rank);
    enum wring_status status =
        bootstrap->ops->exchange(bootstrap, &own, sizeof(own),
                                 wring_deadline_in(wring_mpi_own.join_timeout_ns), NULL, &blobs);
    if (status != WRING_OK)
        return status;
    *one = true;
    memcpy(&first, blobs.storage, sizeof(first));
    for (uint32_t i = 1; i < blobs.n; i++) {
        memcpy(&other, blobs.storage + blobs.offsets[i], sizeof(other));
        *one &= memcmp(first.host, other.host, sizeof(first.host)) == 0;
    }
    for (size_t i = 0; i < sizeof(first.key); i++)
        snprintf(key + 2 * i, 3, "%02x", first.key[i]);
    wring_blobs_finish(&blobs);
    return WRING_OK;
}

/** Bridges of containers and virtual machines rarely lead to another host. */
static enum wring_status find_address(void)
{
    struct wring_mpi_own *own = &wring_mpi_own;
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
    bool one = true;
    enum wring_status status = exchange_key_and_hosts(key, &one);
    if (status == WRING_OK && !one)
        status = find_address();
    if (status != WRING_OK)
        return status;
    params.bootstrap = wring_mpi_bootstrap();
    params.settings = settings;
    params.key = has_own_key() ? NULL : key;
    params.log = own->log.fn;
    status = wring_session_open(&params, &own->session);
    if (status != WRING_OK)
        return status;
    wring_progress_set_aside(own->session->progress, (struct wring_aside){wring_mpi_poke, NULL});
    status = wring_call_codecs_agree(&own->codecs, &coded, own->session);
    return status == WRING_OK ? wring_mpi_comms_open() : status;
}

static struct wring_mpi_verdict verdict_of(enum wring_status status)
{
    struct wring_mpi_verdict verdict = {.status = status, .rank = wring_mpi_own.rank};
    pthread_mutex_lock(&cause_mutex);
    if (status != WRING_OK)
        memcpy(verdict.text, cause, sizeof(verdict.text));
    pthread_mutex_unlock(&cause_mutex);
    return verdict;
}

/** Where no rank could say something to all of them each speaks for itself. */
static void say_verdict(const struct wring_mpi_verdict *verdict)
{
    const struct wring_mpi_own *own = &wring_mpi_own;
    bool speaks = own->rank == 0 || verdict->n_causes == 0;
    char others[64] = "";

    set_opening(false);
    if (verdict->n_causes > 1)
        snprintf(others, sizeof(others), " (and %" PRIu32 " more ranks fail)",
                 verdict->n_causes - 1);
    wring_log_line(&own->log, speaks ? WRING_LOG_ERROR : WRING_LOG_INFO, WRING_MODULE,
                   "rank %" PRIu32 " of %" PRIu32 " cannot open its session%s: %s; leave "
                   "libwring_mpi.so out of LD_PRELOAD to run without wring",
                   verdict->rank, own->size, others,
                   verdict->text[0] != '\0' ? verdict->text : wring_status_text(verdict->status));
}

/** @return the MPI's code for a program that goes on, whose text names the rank and the cause */
static int code_of_verdict(const struct wring_mpi_verdict *verdict)
{
    const struct wring_pmpi *pmpi = &wring_mpi_abi.pmpi;
    char text[200];
    int class, code;

    snprintf(text, sizeof(text), "wring: rank %" PRIu32 ": %.160s", verdict->rank,
             verdict->text[0] != '\0' ? verdict->text : wring_status_text(verdict->status));
    if (pmpi->Add_error_class(&class) != MPI_SUCCESS ||
        pmpi->Add_error_code(class, &code) != MPI_SUCCESS ||
        pmpi->Add_error_string(code, text) != MPI_SUCCESS)
        return wring_mpi_abi.err_other;
    return code;
}

/** @param status  of this rank so far
 *  @return of all ranks */
static struct wring_mpi_verdict open_together(enum wring_status status)
{
    struct wring_mpi_own *own = &wring_mpi_own;
    enum wring_status met = wring_mpi_meet(wring_deadline_in(own->join_timeout_ns));
    if (status == WRING_OK)
        status = met;
    if (status == WRING_OK)
        status = set_finalize_callback() ? open_session() : WRING_ERR_SYSTEM;
    int32_t at_fault = wring_mpi_bootstrap()->at_fault;
    struct wring_mpi_verdict verdict = verdict_of(status);
    if (met != WRING_OK) {
        say_verdict(&verdict);
        return verdict;
    }
    if (at_fault >= 0)
        verdict.rank = (uint32_t)at_fault;
    wring_mpi_conclude(&verdict, wring_deadline_in(own->join_timeout_ns), say_verdict);
    if (verdict.status != WRING_OK) {
        wring_session_close(own->session);
        own->session = NULL;
        own->world = NULL;
    }
    return verdict;
}

/** Another copy of this library serves the process: this one hands all calls on. */
static bool leaves_it_to_another(void)
{
    const struct wring_log log = {.level = WRING_LOG_WARN};
    const char *other = wring_mpi_other_copy();
    if (other != NULL && wring_mpi_own.rank == 0)
        wring_warn(&log,
                   "LD_PRELOAD has this library twice, %s and %s: the first one serves the "
                   "program; leave the other one out",
                   other, wring_mpi_library_path());
    return other != NULL;
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
    if (leaves_it_to_another())
        return MPI_SUCCESS;
    wring_mpi_learn_types();
    set_opening(true);
    enum wring_status status = read_settings();
    struct wring_mpi_verdict verdict = size > 1 ? open_together(status) : verdict_of(status);
    if (size == 1 && status != WRING_OK)
        say_verdict(&verdict);
    set_opening(false);
    if (verdict.status == WRING_OK)
        return MPI_SUCCESS;
    int code = code_of_verdict(&verdict);
    abi->pmpi.Comm_call_errhandler(abi->comm_world, code);
    return code;
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
