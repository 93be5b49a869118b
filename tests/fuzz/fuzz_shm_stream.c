/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The stream beside a shared-memory connection, whose other end sends the frames and the files that
 * it likes, and cuts these short afterwards if it can: whatever is imported is there as a whole, as
 * long as it is held, also when the connection has ended.
 *
 * Input: a row of steps of 1 byte and what they need (see run_step()).
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fuzz/fuzz.h"
#include "transport/providers/shm/shm.h"

#define HELD_MAX 8
#define FILE_BYTES 8192

struct rig {
    struct shm_provider *provider;
    struct shm_conn *conn;
    int peer; /* its end of the stream; -1: closed */
    struct wring_remote *held[HELD_MAX];
    unsigned n_held;
};

static const uint64_t numbers[] = {
    0,
    1,
    100,
    4095,
    4096,
    FILE_BYTES - 1,
    FILE_BYTES,
    FILE_BYTES + 1,
    sizeof(struct shm_inbox),
    1ull << 32,
    1ull << 63,
    UINT64_MAX - 4095,
    UINT64_MAX,
};

static uint64_t take_number(struct fuzz_input *input)
{
    return numbers[fuzz_take(input, 1) % (sizeof(numbers) / sizeof(numbers[0]))];
}

static void open_rig(struct rig *rig)
{
    const char *call;
    int ends[2], fd;

    *rig = (struct rig){.provider = calloc(1, sizeof(*rig->provider))};
    FUZZ_CHECK(rig->provider != NULL &&
                   socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
               "no rig");
    rig->provider->epoll = epoll_create1(EPOLL_CLOEXEC);
    rig->provider->handshake_ns = 60 * WRING_NS_PER_S;
    rig->peer = ends[0];
    rig->conn = wring_shm_conn_create(rig->provider, true, ends[1], NULL, 0);
    FUZZ_CHECK(rig->conn != NULL && rig->provider->epoll >= 0 &&
                   wring_shm_ring_create(&rig->conn->in, &fd, &call) == WRING_OK,
               "no connection");
    close(fd);
    rig->conn->state = SHM_MEETING; /* as after the handshake */
}

static void close_rig(struct rig *rig)
{
    wring_shm_conn_destroy(rig->conn);
    for (unsigned i = 0; i < rig->n_held; i++)
        wring_shm_remote_release(rig->held[i]);
    if (rig->peer >= 0)
        close(rig->peer);
    close(rig->provider->epoll);
    free(rig->provider);
}

/** @return a file of the peer's, or -1 for none */
static int make_file(uint32_t kind)
{
    static const struct {
        int seals;
        off_t bytes;
    } files[] = {
        {F_SEAL_SHRINK, FILE_BYTES},
        {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, sizeof(struct shm_inbox)},
        {0, FILE_BYTES},
        {0, sizeof(struct shm_inbox)},
        {F_SEAL_SHRINK, 100},
        {F_SEAL_SHRINK | F_SEAL_WRITE, FILE_BYTES},
        {F_SEAL_GROW, FILE_BYTES},
        {F_SEAL_SHRINK, 0},
    };
    size_t n = sizeof(files) / sizeof(files[0]);
    if (kind % (n + 3) == n)
        return -1;
    if (kind % (n + 3) > n)
        return open(kind % (n + 3) == n + 1 ? "/dev/zero" : "/", O_RDONLY | O_CLOEXEC);
    kind %= n + 3;
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, files[kind].bytes) == 0 &&
                   fcntl(fd, F_ADD_SEALS, files[kind].seals) == 0,
               "no file");
    return fd;
}

/** The peer's next bytes, perhaps with a file, of which it keeps as little as it can. */
static void say(struct rig *rig, const void *data, size_t bytes, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
    if (rig->peer >= 0 && bytes > 0)
        (void)!sendmsg(rig->peer, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/** Our side looks, and is told of what became of the connection. */
static void service(struct rig *rig)
{
    wring_shm_conn_service(rig->conn);
    rig->conn->news = false;
}

static void say_frame(struct rig *rig, struct fuzz_input *input)
{
    struct shm_frame frame = {.kind = fuzz_take(input, 1) % 6};
    int fd = make_file(fuzz_take(input, 1));

    frame.id = fuzz_take(input, 1) % 4;
    frame.offset = take_number(input);
    frame.bytes = take_number(input);
    say(rig, &frame, sizeof(frame), fd);
    service(rig);
    if (fd < 0)
        return;
    (void)!ftruncate(fd, 0); /* a seal keeps it from that */
    close(fd);
}

/** Both ends of all that is held are there, or this is the end of the process. */
static void touch(const struct rig *rig)
{
    for (unsigned i = 0; i < rig->n_held; i++) {
        void *map;
        FUZZ_CHECK(wring_shm_remote_map(rig->held[i], &map) == WRING_OK, "no map");
        volatile uint8_t *bytes = map;
        uint64_t n = rig->held[i]->bytes;
        if (n > 0) {
            bytes[0]++;
            bytes[n - 1]++;
        }
    }
}

static void import(struct rig *rig, struct fuzz_input *input)
{
    uint64_t key[2] = {fuzz_take(input, 1) % 4, take_number(input)};
    size_t bytes = sizeof(key) - (fuzz_take(input, 1) == 1);
    if (rig->n_held == HELD_MAX)
        return;
    struct wring_remote **out = &rig->held[rig->n_held];
    bool early = rig->conn->state == SHM_MEETING;
    enum wring_status status = wring_shm_remote_import(&rig->conn->base, key, bytes, out);
    bool over = rig->conn->state == SHM_DEAD;
    FUZZ_CHECK(status == WRING_OK || status == WRING_ERR_FRAME || status == WRING_ERR_CLOSED ||
                   (status == WRING_ERR_AGAIN && early) ||
                   ((status == WRING_ERR_PEER || status == WRING_ERR_SYSTEM) && over),
               "status %d", status);
    rig->n_held += status == WRING_OK;
}

static void run_step(struct rig *rig, struct fuzz_input *input)
{
    uint8_t raw[64] = {0};
    size_t n;

    switch (fuzz_take(input, 1) % 6) {
    case 0:
    case 1:
        say_frame(rig, input);
        return;
    case 2:
        import(rig, input);
        return;
    case 3: /* a piece of a frame, or more than one */
        n = fuzz_take(input, 1) % sizeof(raw);
        for (size_t i = 0; i < n && i < 40; i++)
            raw[i] = (uint8_t)fuzz_take(input, 1);
        say(rig, raw, n, -1);
        service(rig);
        return;
    case 4:
        if (rig->n_held > 0)
            wring_shm_remote_release(rig->held[--rig->n_held]);
        return;
    default:
        if (rig->peer >= 0)
            close(rig->peer);
        rig->peer = -1;
        service(rig);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct rig rig;

    open_rig(&rig);
    for (unsigned i = 0; i < 100 && input.left > 0; i++) {
        run_step(&rig, &input);
        touch(&rig);
        const struct shm_conn *conn = rig.conn;
        FUZZ_CHECK(conn->state != SHM_DEAD ||
                       (conn->text[0] != '\0' && conn->status != WRING_OK && conn->sock.fd < 0),
                   "dead without a reason");
    }
    close_rig(&rig);
    return 0;
}
