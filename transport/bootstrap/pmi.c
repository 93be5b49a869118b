/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire protocols of process managers on the descriptor that PMI_FD names: PMI-1, as Hydra
 * speaks it, and PMI-2, as Slurm does. Requests and answers alternate, one line (PMI-1) or one text
 * with its length before it (PMI-2) each.
 *
 * Source: Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
 * Systems", EuroMPI 2010; the messages, as both managers answer them.
 *
 * The descriptor belongs to the process, not to a session, and so does what stands here: the
 * manager takes one init and one finalize, and a process that ends without the latter counts as
 * crashed. An MPI library in the process that has been started ends the exchange itself.
 */
#include "transport/bootstrap/launcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define WRING_MODULE "launcher"
#define MESSAGE_BYTES 2048
#define ANSWER_NS (10 * WRING_NS_PER_S) /* for answers that depend on no other rank */
#define FRAME_DIGITS 6                  /* of PMI-2: decimal, filled up with spaces */

struct dialect {
    const char *name;
    int version;
};

static const struct dialect dialects[] = {{"PMI-1", 1}, {"PMI-2", 2}};

/** The one channel of this process. */
static struct {
    struct wring_launcher_owner owner;
    pthread_mutex_t mutex;
    const struct dialect *dialect; /* NULL: not begun */
    bool begun;                    /* the manager has answered what begins it */
    bool broken;                   /* an answer is missing: what comes next belongs to nothing */
    char separator;                /* between key=value pairs */
    int fd;
    unsigned sequence;
    char space[256];               /* PMI-1: the name of the job's keys */
    char input[2 * MESSAGE_BYTES]; /* read ahead */
    size_t input_bytes;
} channel = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int read_descriptor(void)
{
    const char *text = wring_config_foreign("PMI_FD");
    char *end;
    long fd = text != NULL && *text != '\0' ? strtol(text, &end, 10) : -1;
    return fd >= 0 && fd <= INT32_MAX && *end == '\0' ? (int)fd : -1;
}

static bool is_usable(char *why, size_t bytes)
{
    int fd = read_descriptor();

    if (wring_config_foreign("PMI_FD") == NULL)
        snprintf(why, bytes, "PMI_FD is not set: %s",
                 wring_config_foreign("PMI_PORT") != NULL
                     ? "start without mpiexec -pmi-port"
                     : "a program between the launcher and this one may have dropped it");
    else if (fd < 0 || fcntl(fd, F_GETFD) < 0)
        snprintf(why, bytes,
                 "PMI_FD=%s is no open descriptor: a program between the launcher and "
                 "this one closed it",
                 wring_config_foreign("PMI_FD"));
    else
        return true;
    return false;
}

/* ---- messages ---- */

static enum wring_status fail_exchange(const struct wring_log *log, const char *what)
{
    wring_error(log, "the launcher's %s exchange failed: %s", channel.dialect->name, what);
    return WRING_ERR_SYSTEM;
}

static enum wring_status await_socket(const struct wring_log *log, short events,
                                      uint64_t deadline_ns)
{
    struct pollfd pollfd = {channel.fd, events, 0};
    for (;;) {
        uint64_t now = wring_now_ns();
        if (now >= deadline_ns && !channel.begun)
            return fail_exchange(log, "the launcher does not answer");
        if (now >= deadline_ns) {
            wring_error(log,
                        "not all ranks came to the launcher's %s exchange in time "
                        "(WRING_JOIN_TIMEOUT)",
                        channel.dialect->name);
            return WRING_ERR_PEER;
        }
        uint64_t left_ms = (deadline_ns - now) / WRING_NS_PER_MS + 1;
        int ready = poll(&pollfd, 1, left_ms > 1000 ? 1000 : (int)left_ms);
        if (ready > 0)
            return WRING_OK;
        if (ready < 0 && errno != EINTR)
            return fail_exchange(log, strerror(errno));
    }
}

static enum wring_status send_all(const struct wring_log *log, const char *text, size_t bytes,
                                  uint64_t deadline_ns)
{
    while (bytes > 0) {
        ssize_t n = send(channel.fd, text, bytes, MSG_NOSIGNAL); /* managers hand out sockets */
        if (n < 0 && errno == ENOTSOCK)
            n = write(channel.fd, text, bytes);
        if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            enum wring_status status = await_socket(log, POLLOUT, deadline_ns);
            if (status != WRING_OK)
                return status;
        } else if (n < 0 && errno != EINTR) {
            return fail_exchange(log, strerror(errno));
        }
    }
    return WRING_OK;
}

/** How many bytes the first whole answer takes, MESSAGE_BYTES at most; 0: it is not whole yet, or
 *  is none. @param head out: before it */
static size_t whole_answer_bytes(bool framed, size_t *head)
{
    *head = framed ? FRAME_DIGITS : 0;
    if (!framed) {
        size_t most = channel.input_bytes < MESSAGE_BYTES ? channel.input_bytes : MESSAGE_BYTES - 1;
        const char *end = memchr(channel.input, '\n', most);
        return end != NULL ? (size_t)(end - channel.input) + 1 : 0;
    }
    if (channel.input_bytes < FRAME_DIGITS)
        return 0;
    char digits[FRAME_DIGITS + 1] = "";
    memcpy(digits, channel.input, FRAME_DIGITS);
    size_t bytes = strtoul(digits, NULL, 10);
    return bytes < MESSAGE_BYTES && channel.input_bytes >= FRAME_DIGITS + bytes
               ? FRAME_DIGITS + bytes
               : 0;
}

/** @param answer out, [MESSAGE_BYTES] */
static enum wring_status receive_answer(const struct wring_log *log, bool framed,
                                        uint64_t deadline_ns, char *answer)
{
    size_t bytes, head;
    while ((bytes = whole_answer_bytes(framed, &head)) == 0) {
        if (channel.input_bytes >= MESSAGE_BYTES)
            return fail_exchange(log, "it answered with something else");
        enum wring_status status = await_socket(log, POLLIN, deadline_ns);
        if (status != WRING_OK)
            return status;
        ssize_t n = read(channel.fd, channel.input + channel.input_bytes,
                         sizeof(channel.input) - channel.input_bytes);
        if (n == 0)
            return fail_exchange(log, "the launcher closed it");
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return fail_exchange(log, strerror(errno));
        channel.input_bytes += n > 0 ? (size_t)n : 0;
    }
    memcpy(answer, channel.input + head, bytes - head);
    answer[bytes - head] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    channel.input_bytes -= bytes;
    memmove(channel.input, channel.input + bytes, channel.input_bytes);
    return WRING_OK;
}

/** The value of a pair "key=value" of an answer. @param out out, [bytes] */
static bool find_value(const char *answer, const char *key, char *out, size_t bytes)
{
    char ends[] = {channel.separator, '\n', '\0'};
    size_t length = strlen(key);

    for (const char *at = answer; *at != '\0';) {
        size_t pair = strcspn(at, ends);
        if (pair > length && strncmp(at, key, length) == 0 && at[length] == '=') {
            size_t value = pair - length - 1;
            if (value >= bytes)
                return false;
            memcpy(out, at + length + 1, value);
            out[value] = '\0';
            return true;
        }
        at += pair + (at[pair] != '\0');
    }
    return false;
}

/** Send a request, read its answer. @param framed  as PMI-2 has it, after its init */
static enum wring_status ask_launcher(const struct wring_log *log, bool framed, const char *request,
                                      const char *expected, uint64_t deadline_ns, char *answer)
{
    char text[MESSAGE_BYTES + FRAME_DIGITS + 2], word[64];
    int bytes = framed ? snprintf(text, sizeof(text), "%6zu%s", strlen(request), request)
                       : snprintf(text, sizeof(text), "%s\n", request);

    enum wring_status status = send_all(log, text, (size_t)bytes, deadline_ns);
    if (status == WRING_OK)
        status = receive_answer(log, framed, deadline_ns, answer);
    if (status != WRING_OK)
        return status;
    if (!find_value(answer, "cmd", word, sizeof(word)) || strcmp(word, expected) != 0)
        return fail_exchange(log, "it answered out of turn");
    if (find_value(answer, "rc", word, sizeof(word)) && strcmp(word, "0") != 0)
        return fail_exchange(log, "the launcher refused");
    return WRING_OK;
}

/* ---- init and finalize ---- */

/** An MPI library of this process that was started finalizes itself. */
static bool does_mpi_finalize(void)
{
    int started = 0;
    int (*initialized)(int *started);
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Initialized");

    memcpy(&initialized, &symbol, sizeof(symbol)); /* ISO C has no other way */
    return symbol != NULL && initialized(&started) == 0 && started != 0;
}

static void finalize_pmi(void)
{
    char answer[MESSAGE_BYTES];
    bool framed = channel.dialect->version == 2;

    if (!wring_launcher_own(&channel.owner) || pthread_mutex_trylock(&channel.mutex) != 0)
        return; /* a thread that still waits there has it */
    if (!channel.broken && !does_mpi_finalize())
        ask_launcher(NULL, framed, framed ? "cmd=finalize;" : "cmd=finalize",
                     framed ? "finalize-response" : "finalize_ack", wring_deadline_in(ANSWER_NS),
                     answer);
    pthread_mutex_unlock(&channel.mutex);
}

static enum wring_status begin_pmi(const struct wring_log *log, const struct dialect *dialect,
                                   uint64_t deadline)
{
    char request[256], answer[MESSAGE_BYTES];
    const char *job = wring_config_foreign("PMI_JOBID"), *rank = wring_config_foreign("PMI_RANK");
    bool framed = dialect->version == 2;

    channel.dialect = dialect;
    channel.separator = ' ';
    channel.fd = read_descriptor();
    channel.input_bytes = 0;
    snprintf(request, sizeof(request), "cmd=init pmi_version=%d pmi_subversion=%d",
             dialect->version, framed ? 0 : 1);
    enum wring_status status =
        ask_launcher(log, false, request, "response_to_init", deadline, answer);
    if (status != WRING_OK)
        return status;
    if (framed) {
        channel.separator = ';';
        /* an empty job id ends Hydra 5 */
        snprintf(request, sizeof(request), "cmd=fullinit;%s%.64s%spmirank=%.16s;threaded=FALSE;",
                 job != NULL ? "pmijobid=" : "", job != NULL ? job : "", job != NULL ? ";" : "",
                 rank != NULL ? rank : "");
        return ask_launcher(log, true, request, "fullinit-response", deadline, answer);
    }
    status = ask_launcher(log, false, "cmd=get_my_kvsname", "my_kvsname", deadline, answer);
    if (status == WRING_OK && !find_value(answer, "kvsname", channel.space, sizeof(channel.space)))
        status = fail_exchange(log, "it does not name the job's keys");
    return status;
}

/** Once in a process. */
static enum wring_status begin_pmi_once(const struct wring_log *log, const struct dialect *dialect,
                                        uint64_t deadline_ns)
{
    uint64_t answer_ns = wring_deadline_in(ANSWER_NS);

    if (channel.dialect != NULL)
        return channel.broken ? fail_exchange(log, "it failed before") : WRING_OK;
    enum wring_status status =
        begin_pmi(log, dialect, answer_ns < deadline_ns ? answer_ns : deadline_ns);
    channel.begun = status == WRING_OK;
    channel.broken = !channel.begun;
    if (!channel.begun)
        return status;
    atexit(finalize_pmi);
    return WRING_OK;
}

/* ---- the exchange ---- */

static enum wring_status publish_text(const struct wring_log *log, const char *key,
                                      const char *text, uint64_t deadline_ns)
{
    char request[MESSAGE_BYTES], answer[MESSAGE_BYTES];
    bool framed = channel.dialect->version == 2;

    if (framed)
        snprintf(request, sizeof(request), "cmd=kvs-put;key=%s;value=%s;", key, text);
    else
        snprintf(request, sizeof(request), "cmd=put kvsname=%s key=%s value=%s", channel.space, key,
                 text);
    return ask_launcher(log, framed, request, framed ? "kvs-put-response" : "put_result",
                        deadline_ns, answer);
}

static enum wring_status fence_exchange(const struct wring_log *log, uint64_t deadline_ns)
{
    char answer[MESSAGE_BYTES];
    bool framed = channel.dialect->version == 2;

    return ask_launcher(log, framed, framed ? "cmd=kvs-fence;" : "cmd=barrier_in",
                        framed ? "kvs-fence-response" : "barrier_out", deadline_ns, answer);
}

static enum wring_status look_up(const struct wring_log *log, const char *key, char *text,
                                 uint64_t deadline_ns)
{
    char request[MESSAGE_BYTES], answer[MESSAGE_BYTES];
    bool framed = channel.dialect->version == 2;

    if (framed)
        snprintf(request, sizeof(request), "cmd=kvs-get;key=%s;", key);
    else
        snprintf(request, sizeof(request), "cmd=get kvsname=%s key=%s", channel.space, key);
    enum wring_status status = ask_launcher(
        log, framed, request, framed ? "kvs-get-response" : "get_result", deadline_ns, answer);
    if (status == WRING_OK && !find_value(answer, "value", text, WRING_LAUNCHER_TEXT))
        status = fail_exchange(log, "it lost what rank 0 told");
    return status;
}

static enum wring_status broadcast_text(const struct wring_log *log, const struct dialect *dialect,
                                        bool is_root, uint64_t deadline_ns, char *text)
{
    char key[32];

    if (!wring_launcher_own(&channel.owner))
        return wring_launcher_refuse_child(log);
    pthread_mutex_lock(&channel.mutex);
    enum wring_status status = begin_pmi_once(log, dialect, deadline_ns);
    bool begun = status == WRING_OK;
    snprintf(key, sizeof(key), "wring-%u", channel.sequence);
    if (status == WRING_OK)
        channel.sequence++; /* a key is written once */
    if (status == WRING_OK && is_root)
        status = publish_text(log, key, text, deadline_ns);
    if (status == WRING_OK)
        status = fence_exchange(log, deadline_ns);
    if (status == WRING_OK && !is_root)
        status = look_up(log, key, text, deadline_ns);
    channel.broken |= begun && status != WRING_OK;
    pthread_mutex_unlock(&channel.mutex);
    return status;
}

static enum wring_status broadcast_by_pmi1(const struct wring_log *log, bool is_root,
                                           uint64_t deadline_ns, char *text)
{
    return broadcast_text(log, &dialects[0], is_root, deadline_ns, text);
}

static enum wring_status broadcast_by_pmi2(const struct wring_log *log, bool is_root,
                                           uint64_t deadline_ns, char *text)
{
    return broadcast_text(log, &dialects[1], is_root, deadline_ns, text);
}

const struct wring_launcher_exchange wring_exchange_pmi1 = {"PMI-1", is_usable, broadcast_by_pmi1};
const struct wring_launcher_exchange wring_exchange_pmi2 = {"PMI-2", is_usable, broadcast_by_pmi2};
