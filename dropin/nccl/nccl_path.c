/* SPDX-License-Identifier: Apache-2.0 */
/* The path between two processes: the transport's own objects, and messages over it. */
#include "dropin/nccl/nccl_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "transport/auth.h"
#include "transport/liveness.h"

#define MESSAGES 64                      /* that are allocated together */
#define ANSWER_NS (50 * WRING_NS_PER_MS) /* so long may a peer take to let go of memory */
#define CONTEXT 1                        /* the only one */

struct wring_nccl_messages {
    struct wring_nccl_messages *next;
    struct wring_nccl_message all[MESSAGES];
};

static const uint32_t both[] = {0, 1};

/** What wring says of one link among many: we say what becomes of it, and quote the reason. */
static void log_and_keep_error(void *arg, enum wring_log_level level, const char *module,
                               const char *text)
{
    struct wring_nccl_path *path = arg;

    if (level == WRING_LOG_ERROR) {
        pthread_mutex_lock(&path->why_mutex);
        snprintf(path->why, sizeof(path->why), "%s", text);
        pthread_mutex_unlock(&path->why_mutex);
    }
    wring_nccl_say(level == WRING_LOG_DEBUG ? WRING_NCCL_LOG_TRACE : WRING_NCCL_LOG_INFO,
                   "wring: %s: %s: %s", path->what, module, text);
}

/* ---- opening and closing ---- */

void wring_nccl_path_init(struct wring_nccl_path *path, const struct wring_config *config,
                          const char *what, uint32_t rank)
{
    *path = (struct wring_nccl_path){.config = config, .what = what, .rank = rank};
    path->log = (struct wring_log){log_and_keep_error, path, wring_config_log_level(config)};
    pthread_mutex_init(&path->driver, NULL);
    pthread_mutex_init(&path->why_mutex, NULL);
}

enum wring_status wring_nccl_path_open(struct wring_nccl_path *path, const char *key,
                                       const uint8_t job[WRING_NCCL_JOB], const char *bind,
                                       struct wring_writer *description)
{
    struct wring_fabric_params params = {
        .config = path->config,
        .log = &path->log,
        .rank = path->rank,
        .size = 2,
        .provider = path->config->provider,
        .bind = path->config->bind[0] != '\0' ? path->config->bind : bind,
        .treeless = true,
    };

    memcpy(params.job, job, sizeof(params.job));
    enum wring_status status = wring_secret_derive(key, strlen(key), "wring nccl link", job,
                                                   WRING_NCCL_JOB, params.secret);
    if (status == WRING_OK)
        status = wring_engine_create(path->config, &path->log, NULL, &path->engine);
    if (status != WRING_OK)
        return status;
    params.handler = wring_engine_handler(path->engine);
    status = wring_fabric_create(&params, &path->fabric);
    wring_engine_set_fabric(path->engine, path->fabric);
    if (status == WRING_OK)
        wring_fabric_describe(path->fabric, description);
    return status == WRING_OK && description->failed ? WRING_ERR_NO_MEMORY : status;
}

/** @param out  of both ranks */
static bool join_blobs(uint32_t rank, const struct wring_writer *own, const void *peers,
                       size_t bytes, struct wring_blobs *out)
{
    const void *data[2] = {rank == 0 ? own->data : peers, rank == 0 ? peers : own->data};
    size_t sizes[2] = {rank == 0 ? own->bytes : bytes, rank == 0 ? bytes : own->bytes};

    *out = (struct wring_blobs){
        .n = 2, .offsets = calloc(3, sizeof(size_t)), .storage = malloc(sizes[0] + sizes[1] + 1)};
    if (out->offsets == NULL || out->storage == NULL) {
        wring_blobs_finish(out);
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        out->offsets[i + 1] = out->offsets[i] + sizes[i];
        memcpy(out->storage + out->offsets[i], data[i], sizes[i]);
    }
    return true;
}

enum wring_status wring_nccl_path_join(struct wring_nccl_path *path, const struct wring_writer *own,
                                       const void *peers, size_t bytes)
{
    struct wring_blobs blobs;

    if (!join_blobs(path->rank, own, peers, bytes, &blobs))
        return WRING_ERR_NO_MEMORY;
    pthread_mutex_lock(&path->driver);
    enum wring_status status = wring_fabric_connect(path->fabric, NULL, &blobs, 0);
    if (status == WRING_OK)
        status = wring_messenger_create(path->engine, &path->messenger);
    if (status == WRING_OK)
        status = wring_message_context_create(path->messenger, CONTEXT, both, 2, path->rank,
                                              &path->context);
    if (status == WRING_OK && path->rank == 1) {
        status = wring_fabric_reach(path->fabric, wring_fabric_peer(path->fabric, 0));
        status = status == WRING_ERR_AGAIN ? WRING_OK : status;
    }
    pthread_mutex_unlock(&path->driver);
    return status;
}

static void free_blocks(struct wring_nccl_path *path)
{
    while (path->blocks != NULL) {
        struct wring_nccl_block *block = path->blocks;
        path->blocks = block->next;
        wring_block_finish(&block->block);
        free(block);
    }
    wring_buffer_index_finish(&path->index);
}

/** Providers look at their sockets after a sleep, or rarely. */
static void arm_and_poll_twice(struct wring_nccl_path *path)
{
    struct wring_wait_set set = {.deadline_ns = WRING_NEVER};

    wring_engine_arm(path->engine, &set);
    wring_engine_poll(path->engine);
    wring_engine_poll(path->engine);
}

void wring_nccl_path_drive_alone(struct wring_nccl_path *path)
{
    pthread_mutex_lock(&path->driver);
    arm_and_poll_twice(path);
    pthread_mutex_unlock(&path->driver);
}

void wring_nccl_path_part(struct wring_nccl_path *path)
{
    pthread_mutex_lock(&path->driver);
    if (path->messenger != NULL) {
        wring_fabric_turn_deaf(path->fabric);
        wring_engine_drop(path->engine, WRING_ERR_CLOSED);
    }
    pthread_mutex_unlock(&path->driver);
}

bool wring_nccl_path_has_parted(struct wring_nccl_path *path)
{
    bool parted = true;

    pthread_mutex_lock(&path->driver);
    if (path->messenger != NULL) {
        arm_and_poll_twice(path);
        parted =
            path->fabric->state != WRING_FABRIC_WORKING || wring_liveness_has_parted(path->fabric);
    }
    pthread_mutex_unlock(&path->driver);
    return parted;
}

void wring_nccl_path_close(struct wring_nccl_path *path)
{
    pthread_mutex_lock(&path->driver);
    free_blocks(path);
    wring_messenger_destroy(path->messenger);
    wring_fabric_destroy(path->fabric);
    wring_engine_destroy(path->engine);
    while (path->chunks != NULL) {
        struct wring_nccl_messages *chunk = path->chunks;
        path->chunks = chunk->next;
        free(chunk);
    }
    pthread_mutex_unlock(&path->driver);
    pthread_mutex_destroy(&path->driver);
    pthread_mutex_destroy(&path->why_mutex);
}

/* ---- how it stands ---- */

bool wring_nccl_path_stands(struct wring_nccl_path *path)
{
    pthread_mutex_lock(&path->driver);
    bool stands = path->fabric->peers[1 - path->rank].state == WRING_PEER_READY;
    pthread_mutex_unlock(&path->driver);
    return stands;
}

bool wring_nccl_path_is_gone(struct wring_nccl_path *path)
{
    pthread_mutex_lock(&path->driver);
    const struct wring_peer *peer = &path->fabric->peers[1 - path->rank];
    bool gone = wring_fabric_status(path->fabric) != WRING_OK || peer->left ||
                peer->state == WRING_PEER_GONE;
    pthread_mutex_unlock(&path->driver);
    return gone;
}

enum wring_status wring_nccl_path_status(const struct wring_nccl_path *path)
{
    return wring_fabric_status(path->fabric);
}

bool wring_nccl_path_is_failing(struct wring_nccl_path *path)
{
    pthread_mutex_lock(&path->driver);
    bool failing = path->fabric != NULL && path->fabric->state == WRING_FABRIC_FAILING;
    pthread_mutex_unlock(&path->driver);
    return failing;
}

void wring_nccl_path_why(struct wring_nccl_path *path, char *text, size_t bytes)
{
    struct wring_failure failure;

    if (path->fabric != NULL && wring_fabric_failure(path->fabric, &failure) != WRING_OK) {
        snprintf(text, bytes, "%s", failure.text);
        return;
    }
    pthread_mutex_lock(&path->why_mutex);
    snprintf(text, bytes, "%s", path->why);
    pthread_mutex_unlock(&path->why_mutex);
}

/* ---- driving ---- */

/** A caller looks after it from now on, and may leave something behind. So the thread stops
 * sleeping on its descriptors, by which the caller's messages would wake it, and looks again a
 * little later.
 */
static void note_caller_visit(struct wring_nccl_path *path)
{
    atomic_store_explicit(&path->visited, true, memory_order_relaxed);
    if (atomic_load_explicit(&path->watched, memory_order_relaxed) &&
        atomic_exchange(&path->watched, false))
        wring_nccl_watch_wake();
}

void wring_nccl_path_drive(struct wring_nccl_path *path)
{
    if (pthread_mutex_trylock(&path->driver) != 0)
        return;
    wring_engine_poll(path->engine);
    note_caller_visit(path);
    pthread_mutex_unlock(&path->driver);
}

#define POLLS 16                      /* of polls, before others have their turn */
#define PARK_NS (1 * WRING_NS_PER_MS) /* the thread stands back after callers */

/** Nothing moves. @return false: something does after all */
static bool arm_path(struct wring_nccl_path *path)
{
    path->set = (struct wring_wait_set){.deadline_ns = WRING_NEVER};
    wring_engine_arm(path->engine, &path->set);
    atomic_store(&path->watched, true);
    if (!path->set.busy && !wring_engine_poll(path->engine))
        return true;
    atomic_store(&path->watched, false);
    return false;
}

bool wring_nccl_path_is_due(struct wring_nccl_path *path, const struct wring_nccl_watch *watch,
                            uint64_t now_ns)
{
    if (!atomic_load(&path->watched) || now_ns >= path->set.deadline_ns)
        return true;
    for (unsigned i = 0; i < path->set.n; i++)
        if (wring_nccl_watch_saw(watch, path->set_at + i, path->set.fds[i].fd))
            return true;
    return false;
}

static void add_path_to_watch(struct wring_nccl_path *path, struct wring_nccl_watch *watch)
{
    path->set_at = watch->n;
    for (unsigned i = 0; i < path->set.n; i++)
        wring_nccl_watch_add(watch, path->set.fds[i].fd, path->set.fds[i].events);
    wring_nccl_watch_until(watch, path->set.deadline_ns);
}

void wring_nccl_path_watch(struct wring_nccl_path *path, struct wring_nccl_watch *watch)
{
    if (atomic_load(&path->watched)) { /* as it was before */
        add_path_to_watch(path, watch);
        return;
    }
    if (atomic_exchange(&path->visited, false)) {
        wring_nccl_watch_until(watch, wring_deadline_in(PARK_NS));
        return;
    }
    pthread_mutex_lock(&path->driver);
    unsigned polls = 0;
    while (polls < POLLS && wring_engine_poll(path->engine))
        polls++;
    bool sleeps = polls == 0 && arm_path(path); /* else its owner looks first */
    pthread_mutex_unlock(&path->driver);
    if (sleeps)
        add_path_to_watch(path, watch);
    else
        watch->moves = true;
}

/* ---- messages ---- */

/** The driver is locked. NULL: no memory */
static struct wring_nccl_message *take_message(struct wring_nccl_path *path)
{
    if (path->free == NULL)
        path->free = atomic_exchange_explicit(&path->returned, NULL, memory_order_acquire);
    if (path->free == NULL) {
        struct wring_nccl_messages *chunk = calloc(1, sizeof(*chunk));
        if (chunk == NULL)
            return NULL;
        chunk->next = path->chunks;
        path->chunks = chunk;
        for (size_t i = 0; i < MESSAGES; i++) {
            chunk->all[i].next = path->free;
            path->free = &chunk->all[i];
        }
    }
    struct wring_nccl_message *message = path->free;
    path->free = message->next;
    return message;
}

static void return_message(struct wring_nccl_path *path, struct wring_nccl_message *message)
{
    message->next = atomic_load_explicit(&path->returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&path->returned, &message->next, message,
                                                  memory_order_release, memory_order_relaxed))
        continue;
}

static struct wring_nccl_block *find_block(const struct wring_nccl_path *path, const void *data,
                                           size_t bytes)
{
    return path->blocks != NULL ? wring_buffer_index_find(&path->index, data, bytes) : NULL;
}

static enum wring_status begin_message(struct wring_nccl_path *path,
                                       const struct wring_message *what,
                                       struct wring_nccl_message **out)
{
    enum wring_status status = wring_fabric_status(path->fabric);
    if (status != WRING_OK)
        return status;
    pthread_mutex_lock(&path->driver);
    struct wring_nccl_message *own = take_message(path);
    if (own != NULL) {
        const struct wring_nccl_block *block =
            what->bytes > 0 ? find_block(path, what->buf, (size_t)what->bytes) : NULL;
        memcpy(&own->message, what, sizeof(*what));
        own->message.context = path->context;
        own->message.block = block != NULL ? &block->block : NULL;
        if (path->fabric->state == WRING_FABRIC_WORKING)
            wring_message_begin(path->messenger, &own->message);
        else /* it ends as all others do */
            wring_message_post(path->messenger, &own->message);
    }
    note_caller_visit(path);
    pthread_mutex_unlock(&path->driver);
    *out = own;
    return own != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

enum wring_status wring_nccl_path_send(struct wring_nccl_path *path, const void *data,
                                       uint64_t bytes, uint64_t tag, bool offered,
                                       struct wring_nccl_message **out)
{
    struct wring_message message;

    wring_message_init(&message, (void *)(uintptr_t)data, bytes, 1 - path->rank, tag);
    message.is_send = true;
    message.offered = offered;
    return begin_message(path, &message, out);
}

enum wring_status wring_nccl_path_recv(struct wring_nccl_path *path, void *data, uint64_t bytes,
                                       uint64_t tag, struct wring_nccl_message **out)
{
    struct wring_message message;

    wring_message_init(&message, data, bytes, 1 - path->rank, tag);
    message.is_send = false;
    return begin_message(path, &message, out);
}

enum wring_status wring_nccl_path_look(struct wring_nccl_path *path,
                                       struct wring_nccl_message **message,
                                       struct wring_message_end *end)
{
    struct wring_message *what = &(*message)->message;
    int status = atomic_load_explicit(&what->status, memory_order_acquire);

    if (status == WRING_ERR_AGAIN)
        return WRING_ERR_AGAIN;
    if (end != NULL)
        *end = what->end;
    return_message(path, *message);
    *message = NULL;
    return (enum wring_status)status;
}

/** Has it ended? The driver is locked. @param late  it ends now, without the peer's answer */
static bool abandon_if_late(struct wring_nccl_path *path, struct wring_message *message, bool late)
{
    struct wring_nccl_block *block;

    if (late && message->state != WRING_MESSAGE_ENDED &&
        wring_message_abandon(path->messenger, message) == WRING_ERR_BUSY &&
        (block = find_block(path, message->buf, 1)) != NULL)
        block->kept = true;
    return message->state == WRING_MESSAGE_ENDED;
}

void wring_nccl_path_cancel(struct wring_nccl_path *path, struct wring_nccl_message **message)
{
    const struct timespec pause = {0, WRING_NS_PER_MS / 4};
    uint64_t until_ns = wring_deadline_in(ANSWER_NS);
    bool over = *message == NULL || wring_nccl_path_look(path, message, NULL) != WRING_ERR_AGAIN;

    for (bool begun = false; !over; begun = true) {
        if (begun)
            nanosleep(&pause, NULL);
        pthread_mutex_lock(&path->driver);
        if (!begun)
            wring_message_cancel(path->messenger, &(*message)->message);
        wring_engine_poll(path->engine);
        note_caller_visit(path);
        over = abandon_if_late(path, &(*message)->message, wring_now_ns() >= until_ns);
        pthread_mutex_unlock(&path->driver);
    }
    if (*message != NULL)
        return_message(path, *message);
    *message = NULL;
}

/* ---- registered memory ---- */

enum wring_status wring_nccl_path_register(struct wring_nccl_path *path,
                                           const struct wring_memory *memory,
                                           struct wring_nccl_block **out)
{
    struct wring_nccl_block *block;

    if (memory->base == NULL || memory->bytes == 0 ||
        (uintptr_t)memory->base > UINTPTR_MAX - memory->bytes)
        return WRING_ERR_INVALID;
    block = calloc(1, sizeof(*block));
    if (block == NULL)
        return WRING_ERR_NO_MEMORY;
    pthread_mutex_lock(&path->driver);
    enum wring_status status = wring_block_borrow_memory(path->fabric, memory, &block->block);
    if (status == WRING_OK &&
        !wring_buffer_index_add(&path->index, memory->base, memory->bytes, block)) {
        wring_block_finish(&block->block);
        status = WRING_ERR_NO_MEMORY;
    }
    if (status == WRING_OK) {
        block->next = path->blocks;
        path->blocks = block;
    }
    pthread_mutex_unlock(&path->driver);
    if (status != WRING_OK)
        free(block);
    else
        *out = block;
    return status;
}

void wring_nccl_path_forget(struct wring_nccl_path *path, struct wring_nccl_block *block)
{
    pthread_mutex_lock(&path->driver);
    bool goes = !block->kept;
    if (goes) {
        struct wring_nccl_block **at = &path->blocks;
        while (*at != block)
            at = &(*at)->next;
        *at = block->next;
        wring_buffer_index_remove(&path->index, block->block.memory.base, block);
        wring_block_finish(&block->block);
    }
    pthread_mutex_unlock(&path->driver);
    if (goes)
        free(block);
}

bool wring_nccl_path_is_on_device(struct wring_nccl_path *path, const void *data, size_t bytes)
{
    pthread_mutex_lock(&path->driver);
    const struct wring_nccl_block *block = find_block(path, data, bytes);
    bool on_device = block != NULL && block->block.memory.kind == WRING_MEMORY_DEVICE;
    pthread_mutex_unlock(&path->driver);
    return on_device;
}

enum wring_status wring_nccl_path_flush(struct wring_nccl_path *path,
                                        const struct wring_nccl_block *block, const void *at,
                                        struct wring_block_flush *flush)
{
    pthread_mutex_lock(&path->driver);
    enum wring_status status = wring_block_flush(path->fabric, &block->block, at, flush);
    pthread_mutex_unlock(&path->driver);
    return status;
}
