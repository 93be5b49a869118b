/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of launchers that speak PMIx: Open MPI, PRRTE, Slurm with --mpi=pmix.
 *
 * libpmix is loaded at run time, the one that the process has already where it has one, so that
 * wring's calls and those of an MPI library count as one client. The declarations here are those of
 * the PMIx Standard, version 4.1, chapters 3, 5 and 7; its ABI keeps them.
 *
 * The client belongs to the process, not to a session: it is begun once and ended when the process
 * exits, as a process that ends without it counts as crashed.
 */
#include "transport/bootstrap/launcher.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define WRING_MODULE "launcher"

/* ---- of the PMIx Standard ---- */

#define PMIX_SUCCESS 0
#define PMIX_OPERATION_SUCCEEDED (-157)
#define PMIX_BOOL 1
#define PMIX_STRING 3
#define PMIX_UINT32 14
#define PMIX_GLOBAL 3
#define PMIX_RANK_WILDCARD (UINT32_MAX - 1)
#define PMIX_JOB_SIZE "pmix.job.size"
#define PMIX_COLLECT_DATA "pmix.collect"

struct pmix_proc {
    char nspace[256];
    uint32_t rank;
};

struct pmix_value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        uint32_t uint32;
        char room[24]; /* as the largest of its members */
        void *align;
    } data;
};

struct pmix_info {
    char key[512];
    uint32_t flags;
    struct pmix_value value;
};

typedef void (*pmix_op_fn)(int status, void *arg);
typedef void (*pmix_value_fn)(int status, struct pmix_value *value, void *arg);

struct pmix_calls {
    int (*init)(struct pmix_proc *proc, void *info, size_t n_info);
    int (*finalize)(const void *info, size_t n_info);
    int (*put)(uint8_t scope, const char *key, struct pmix_value *value);
    int (*commit)(void);
    int (*fence_nb)(const struct pmix_proc *procs, size_t n_procs, const void *info, size_t n_info,
                    pmix_op_fn done, void *arg);
    int (*get_nb)(const struct pmix_proc *proc, const char *key, const void *info, size_t n_info,
                  pmix_value_fn done, void *arg);
    const char *(*error_string)(int status);
};

/* ---- the client of this process ---- */

static struct {
    struct wring_launcher_owner owner;
    pthread_mutex_t mutex;
    void *library;
    struct pmix_calls calls;
    struct pmix_proc self;
    bool begun;
    unsigned sequence;
} client = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void *open_library_below(const char *variable, const char *folder)
{
    const char *prefix = wring_config_foreign(variable);
    char path[1024];
    if (prefix == NULL || *prefix == '\0' ||
        snprintf(path, sizeof(path), "%s%s/libpmix.so.2", prefix, folder) >= (int)sizeof(path))
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/** The process's own if it has one, else the launcher's, as others speak its dialect less well.
 *  libpmix's plugins look for its symbols in the process, hence RTLD_GLOBAL. */
static void *open_library(void)
{
    static const struct {
        const char *variable, *folder;
    } folders[] = {
        {"OMPI_LIBDIR_LOC", "/openmpi"}, {"OMPI_LIBDIR_LOC", ""}, {"PMIX_PREFIX", "/lib"},
        {"PMIX_PREFIX", "/lib64"},       {"PRTE_PREFIX", "/lib"}, {"OPAL_PREFIX", "/lib"},
    };
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);

    for (size_t i = 0; library == NULL && i < sizeof(folders) / sizeof(folders[0]); i++)
        library = open_library_below(folders[i].variable, folders[i].folder);
    return library != NULL ? library : dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
}

/** dlsym() gives objects; ISO C has no other way to make a function of one. */
static bool load_symbol(const char *name, void *to)
{
    void *symbol = dlsym(client.library, name);
    memcpy(to, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/** Under the mutex. */
static bool load_client(void)
{
    struct pmix_calls *calls = &client.calls;

    if (client.library == NULL)
        client.library = open_library();
    return client.library != NULL && load_symbol("PMIx_Init", &calls->init) &&
           load_symbol("PMIx_Finalize", &calls->finalize) && load_symbol("PMIx_Put", &calls->put) &&
           load_symbol("PMIx_Commit", &calls->commit) &&
           load_symbol("PMIx_Fence_nb", &calls->fence_nb) &&
           load_symbol("PMIx_Get_nb", &calls->get_nb) &&
           load_symbol("PMIx_Error_string", &calls->error_string);
}

static bool is_usable(char *why, size_t bytes)
{
    if (!wring_launcher_own(&client.owner)) {
        snprintf(why, bytes, "it belongs to the process that forked this one");
        return false;
    }
    pthread_mutex_lock(&client.mutex);
    bool loaded = load_client();
    pthread_mutex_unlock(&client.mutex);

    const char *space = wring_config_foreign("PMIX_NAMESPACE");
    const char *rank = wring_config_foreign("PMIX_RANK");
    if (space == NULL || rank == NULL)
        snprintf(why, bytes,
                 "%s is not set: a program between the launcher and this one may have dropped it",
                 space == NULL ? "PMIX_NAMESPACE" : "PMIX_RANK");
    else if (!loaded)
        snprintf(why, bytes,
                 "libpmix.so.2 is not found: install it (Debian: libpmix2), or name the "
                 "launcher's own folder in LD_LIBRARY_PATH");
    return loaded && space != NULL && rank != NULL;
}

static enum wring_status fail_exchange(const struct wring_log *log, const char *what, int status)
{
    wring_error(log, "the launcher's PMIx exchange failed: %s: %s", what,
                client.calls.error_string(status));
    return WRING_ERR_SYSTEM;
}

static void finalize_pmix(void)
{
    if (wring_launcher_own(&client.owner))
        client.calls.finalize(NULL, 0);
}

/** Once in a process; under the mutex. */
static enum wring_status begin_pmix_once(const struct wring_log *log)
{
    if (client.begun)
        return WRING_OK;
    if (!load_client()) {
        wring_error(log, "libpmix.so.2 lacks calls that wring needs");
        return WRING_ERR_UNSUPPORTED;
    }
    int status = client.calls.init(&client.self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        wring_error(log,
                    "the launcher's PMIx server does not answer (PMIx_Init: %s): start this "
                    "process within its job, or set WRING_RANK, WRING_SIZE, WRING_ROOT and "
                    "WRING_KEY",
                    client.calls.error_string(status));
        return WRING_ERR_SYSTEM;
    }
    client.begun = true;
    atexit(finalize_pmix);
    return WRING_OK;
}

/* ---- waiting for calls without a deadline of their own ---- */

/** An answer that libpmix's thread gives. The waiting and the answering thread both let go of
 *  it; the last one frees it. */
struct answer {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned users;
    bool done;
    int status;
    uint32_t number;
    char text[WRING_LAUNCHER_TEXT];
};

static struct answer *answer_create(void)
{
    struct answer *answer = calloc(1, sizeof(*answer));
    pthread_condattr_t attributes;

    if (answer == NULL)
        return NULL;
    pthread_mutex_init(&answer->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&answer->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    answer->users = 2;
    return answer;
}

static void answer_release(struct answer *answer)
{
    pthread_mutex_lock(&answer->mutex);
    bool last = --answer->users == 0;
    pthread_mutex_unlock(&answer->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&answer->changed);
    pthread_mutex_destroy(&answer->mutex);
    free(answer);
}

static void on_value(int status, struct pmix_value *value, void *arg)
{
    struct answer *answer = arg;

    pthread_mutex_lock(&answer->mutex);
    answer->status = status;
    if (status == PMIX_SUCCESS && value != NULL && value->type == PMIX_STRING &&
        value->data.string != NULL)
        snprintf(answer->text, sizeof(answer->text), "%s", value->data.string);
    if (status == PMIX_SUCCESS && value != NULL && value->type == PMIX_UINT32)
        answer->number = value->data.uint32;
    answer->done = true;
    pthread_cond_signal(&answer->changed);
    pthread_mutex_unlock(&answer->mutex);
    answer_release(answer);
}

static void on_done(int status, void *arg)
{
    on_value(status, NULL, arg);
}

/** @param begun  what the call that answers returned: where it has succeeded already, it does not
 *  call back */
static enum wring_status await_answer(const struct wring_log *log, struct answer *answer,
                                      const char *what, int begun, uint64_t deadline_ns)
{
    if (begun != PMIX_SUCCESS) {
        answer_release(answer); /* nobody will answer */
        return begun == PMIX_OPERATION_SUCCEEDED ? WRING_OK : fail_exchange(log, what, begun);
    }
    struct timespec until = {(time_t)(deadline_ns / WRING_NS_PER_S),
                             (long)(deadline_ns % WRING_NS_PER_S)};
    int error = 0;
    pthread_mutex_lock(&answer->mutex);
    while (!answer->done && error == 0)
        error = pthread_cond_timedwait(&answer->changed, &answer->mutex, &until);
    bool done = answer->done;
    int status = answer->status;
    pthread_mutex_unlock(&answer->mutex);
    if (done)
        return status == PMIX_SUCCESS ? WRING_OK : fail_exchange(log, what, status);
    wring_error(log, "not all ranks came to the launcher's PMIx exchange in time "
                     "(WRING_JOIN_TIMEOUT)");
    return WRING_ERR_PEER;
}

/* ---- the exchange ---- */

static enum wring_status publish_text(const struct wring_log *log, const char *key, char *text)
{
    struct pmix_value value = {.type = PMIX_STRING, .data.string = text};
    int status = client.calls.put(PMIX_GLOBAL, key, &value);
    if (status != PMIX_SUCCESS)
        return fail_exchange(log, "PMIx_Put", status);
    status = client.calls.commit();
    return status == PMIX_SUCCESS ? WRING_OK : fail_exchange(log, "PMIx_Commit", status);
}

/** All come, and have what was put. Left to fetch it when they ask, servers of other hosts fetch
 *  what a rank has put once, and never see what it puts later. */
static enum wring_status fence_exchange(const struct wring_log *log, uint64_t deadline_ns)
{
    static const struct pmix_info collect = {.key = PMIX_COLLECT_DATA,
                                             .value = {.type = PMIX_BOOL, .data.flag = true}};
    struct answer *answer = answer_create();
    if (answer == NULL)
        return WRING_ERR_NO_MEMORY;
    int begun = client.calls.fence_nb(NULL, 0, &collect, 1, on_done, answer);
    enum wring_status status = await_answer(log, answer, "PMIx_Fence", begun, deadline_ns);
    answer_release(answer);
    return status;
}

/** @param text  out, [WRING_LAUNCHER_TEXT], or NULL @param number  out, or NULL */
static enum wring_status look_up(const struct wring_log *log, uint32_t rank, const char *key,
                                 uint64_t deadline_ns, char *text, uint32_t *number)
{
    struct pmix_proc proc = client.self;
    struct answer *answer = answer_create();
    if (answer == NULL)
        return WRING_ERR_NO_MEMORY;
    proc.rank = rank;
    int begun = client.calls.get_nb(&proc, key, NULL, 0, on_value, answer);
    enum wring_status status = await_answer(log, answer, "PMIx_Get", begun, deadline_ns);
    if (status == WRING_OK && !answer->done)
        status = fail_exchange(log, "PMIx_Get", begun); /* without a value */
    if (status == WRING_OK && text != NULL)
        memcpy(text, answer->text, WRING_LAUNCHER_TEXT);
    if (status == WRING_OK && number != NULL)
        *number = answer->number;
    answer_release(answer);
    return status;
}

static enum wring_status broadcast_text(const struct wring_log *log, bool is_root,
                                        uint64_t deadline_ns, char *text)
{
    char key[32];

    if (!wring_launcher_own(&client.owner))
        return wring_launcher_refuse_child(log);
    pthread_mutex_lock(&client.mutex);
    enum wring_status status = begin_pmix_once(log);
    snprintf(key, sizeof(key), "wring-%u", client.sequence);
    if (status == WRING_OK)
        client.sequence++; /* a key is written once */
    if (status == WRING_OK && is_root)
        status = publish_text(log, key, text);
    if (status == WRING_OK)
        status = fence_exchange(log, deadline_ns);
    if (status == WRING_OK && !is_root)
        status = look_up(log, 0, key, deadline_ns, text, NULL);
    pthread_mutex_unlock(&client.mutex);
    return status;
}

enum wring_status wring_pmix_job_size(const struct wring_log *log, uint32_t *size)
{
    uint32_t number = 0;

    if (!wring_launcher_own(&client.owner))
        return wring_launcher_refuse_child(log);
    pthread_mutex_lock(&client.mutex);
    enum wring_status status = begin_pmix_once(log);
    if (status == WRING_OK)
        status = look_up(log, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE,
                         wring_deadline_in(10 * WRING_NS_PER_S), NULL, &number);
    pthread_mutex_unlock(&client.mutex);
    if (status == WRING_OK && number == 0) {
        wring_error(log, "the launcher's PMIx exchange does not say how many ranks there are");
        status = WRING_ERR_SYSTEM;
    }
    if (status == WRING_OK)
        *size = number;
    return status;
}

const struct wring_launcher_exchange wring_exchange_pmix = {"PMIx", is_usable, broadcast_text};
