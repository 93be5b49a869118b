/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of libpmix: ranks share the folder that PMIX_DOUBLE names, where each key, each arrival
 * at a fence and each end is a file. PMIX_DOUBLE_FAILS names what goes wrong. Calls and types are
 * those of the PMIx Standard 4.1.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define NOT_FOUND (-46)
#define FAILED (-1)
#define STRING 3
#define UINT32 14

struct proc {
    char nspace[256];
    uint32_t rank;
};

struct value {
    uint16_t type;
    union {
        char *string;
        uint32_t uint32;
        char room[24];
        void *align;
    } data;
};

typedef void (*op_fn)(int status, void *arg);
typedef void (*value_fn)(int status, struct value *value, void *arg);

struct call {
    op_fn done;
    value_fn got;
    void *arg;
    uint32_t rank;
    unsigned fence;
    char key[128];
};

static struct proc self;
static unsigned fences;

EXPORT int PMIx_Init(struct proc *proc, void *info, size_t n_info);
EXPORT int PMIx_Finalize(const void *info, size_t n_info);
EXPORT int PMIx_Put(uint8_t scope, const char *key, struct value *value);
EXPORT int PMIx_Commit(void);
EXPORT int PMIx_Fence_nb(const struct proc *procs, size_t n_procs, const void *info, size_t n_info,
                         op_fn done, void *arg);
EXPORT int PMIx_Get_nb(const struct proc *proc, const char *key, const void *info, size_t n_info,
                       value_fn got, void *arg);
EXPORT const char *PMIx_Error_string(int status);

static int fails(const char *what)
{
    const char *text = getenv("PMIX_DOUBLE_FAILS");
    return text != NULL && strcmp(text, what) == 0;
}

static void write_file(const char *name, uint32_t rank, const char *text)
{
    char path[512], draft[520];
    snprintf(path, sizeof(path), "%s/%s.%u", getenv("PMIX_DOUBLE"), name, rank);
    snprintf(draft, sizeof(draft), "%s~", path);
    FILE *file = fopen(draft, "w");
    if (file == NULL)
        abort();
    fputs(text, file);
    fclose(file);
    rename(draft, path);
}

static int read_file(const char *name, uint32_t rank, char *text, int bytes)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.%u", getenv("PMIX_DOUBLE"), name, rank);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    text[0] = '\0';
    if (fgets(text, bytes, file) == NULL)
        text[0] = '\0';
    fclose(file);
    return 1;
}

int PMIx_Init(struct proc *proc, void *info, size_t n_info)
{
    (void)info, (void)n_info;
    if (fails("init"))
        return FAILED;
    snprintf(self.nspace, sizeof(self.nspace), "%s", getenv("PMIX_NAMESPACE"));
    self.rank = (uint32_t)atoi(getenv("PMIX_RANK"));
    *proc = self;
    write_file("begun", self.rank, "");
    return 0;
}

int PMIx_Finalize(const void *info, size_t n_info)
{
    (void)info, (void)n_info;
    write_file("ended", self.rank, "");
    return 0;
}

int PMIx_Put(uint8_t scope, const char *key, struct value *value)
{
    if (scope != 3 || value->type != STRING || fails("put"))
        return FAILED;
    write_file(key, self.rank, value->data.string);
    return 0;
}

int PMIx_Commit(void)
{
    return 0;
}

/** @return PMIX_OPERATION_SUCCEEDED: there is no call back */
static int wait_here(unsigned fence)
{
    uint32_t size = (uint32_t)atoi(getenv("PMIX_DOUBLE_SIZE"));
    char name[32], none[8];

    snprintf(name, sizeof(name), "fence-%u", fence);
    if (!fails("fence"))
        write_file(name, self.rank, "");
    for (uint32_t rank = 0; rank < size;) {
        if (read_file(name, rank, none, sizeof(none)))
            rank++;
        else
            usleep(1000);
    }
    return -157;
}

static void *await_all(void *arg)
{
    struct call *call = arg;
    wait_here(call->fence);
    call->done(0, call->arg);
    free(call);
    return NULL;
}

static void *get(void *arg)
{
    struct call *call = arg;
    char text[1024];
    struct value value = {.type = STRING, .data.string = text};

    if (strcmp(call->key, "pmix.job.size") == 0) {
        value = (struct value){.type = UINT32};
        value.data.uint32 = (uint32_t)atoi(getenv("PMIX_DOUBLE_SIZE"));
        call->got(0, &value, call->arg);
    } else if (fails("get") || !read_file(call->key, call->rank, text, sizeof(text))) {
        call->got(NOT_FOUND, NULL, call->arg);
    } else {
        call->got(0, &value, call->arg);
    }
    free(call);
    return NULL;
}

static int start(void *(*run)(void *arg), const struct call *call)
{
    pthread_t thread;
    struct call *copy = malloc(sizeof(*copy));
    if (copy == NULL)
        return FAILED;
    *copy = *call;
    if (pthread_create(&thread, NULL, run, copy) != 0)
        return FAILED;
    pthread_detach(thread);
    return 0;
}

int PMIx_Fence_nb(const struct proc *procs, size_t n_procs, const void *info, size_t n_info,
                  op_fn done, void *arg)
{
    (void)procs, (void)n_procs, (void)info, (void)n_info;
    if (fails("nothing, and at once")) /* a library may be done before it returns */
        return wait_here(fences++);
    return start(await_all, &(struct call){.done = done, .arg = arg, .fence = fences++});
}

int PMIx_Get_nb(const struct proc *proc, const char *key, const void *info, size_t n_info,
                value_fn got, void *arg)
{
    struct call call = {.got = got, .arg = arg, .rank = proc->rank};
    (void)info, (void)n_info;
    if (strcmp(proc->nspace, self.nspace) != 0)
        return FAILED;
    snprintf(call.key, sizeof(call.key), "%s", key);
    return start(get, &call);
}

const char *PMIx_Error_string(int status)
{
    return status == NOT_FOUND ? "NOT-FOUND" : "ERROR";
}
