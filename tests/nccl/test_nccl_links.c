/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How wring's links come to stand: side by side, driven by one thread, whoever else dies or lies.
 *
 *     test_nccl_links PLUGIN auto|v12|v11|v8 [NAME=VALUE...] [CASE...]
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "tests/nccl/flow.h"
#include "transport/providers/handshake.h"

/* ---- one thread ---- */

static uint32_t make_mesh(uint32_t ranks, struct rig_link *links)
{
    uint32_t n = 0;

    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            if (from != to)
                links[n++] = (struct rig_link){.from = from, .to = to};
    return n;
}

/** Some messages over all of them at once. */
static void use(struct rig *rig, const struct rig_link *links, uint32_t n)
{
    struct flow **flows = calloc(2 * (size_t)n, sizeof(*flows));

    if (flows == NULL)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        struct flow_plan plan = {
            .seed = 500 + i, .tags = 1, .count = 10, .depth = PLUGIN_STEPS, .largest = 50000};
        if (links[i].send != NULL)
            flows[2 * i] = flow_start(rig, &plan, links[i].send, true);
        if (links[i].receive != NULL)
            flows[2 * i + 1] = flow_start(rig, &plan, links[i].receive, false);
    }
    flow_run(flows, 2 * n);
    free(flows);
}

static void connect_all(const struct world_rank *me, void *arg)
{
    struct rig_link mesh[WORLD_MAX * WORLD_MAX], pair = {.from = 0, .to = 1};
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    rig_connect(&rig, &pair, 1); /* whoever has none has no thread either */
    unsigned few = rig_count_threads();
    uint32_t n = make_mesh(me->size, mesh);
    rig_connect(&rig, mesh, n);
    unsigned many = rig_count_threads();
    CHECK(me->rank > 1 || many == few, "with 1 peer %u threads, with %u peers %u", few,
          me->size - 1, many);
    use(&rig, mesh, n);
    rig_disconnect(&rig, mesh, n);
    rig_disconnect(&rig, &pair, 1);
    rig_end(&rig);
}

static void a_mesh_needs_one_thread(void)
{
    world_run(&(struct world_job){.size = WORLD_MAX, .run = connect_all});
}

/* ---- a peer that is not there ---- */

#define VICTIM 2

/** Rank 0 goes on asking for a connection with one who was killed. */
static void knock_in_vain(const struct world_rank *me, void *arg)
{
    static struct rig_meeting meeting;
    struct rig_link dead = {.from = 0, .to = VICTIM}, link = {.from = 0, .to = 1},
                    back = {.from = 1, .to = 0};
    struct rig rig;

    (void)arg;
    rig_begin(&rig, me);
    rig_listen(&rig, &dead, 1, &meeting);
    if (me->rank == VICTIM)
        for (;;)
            world_turn("its death");
    if (me->rank == 0) {
        world_kill(VICTIM);
        int result =
            plugin_connect(rig.plugin, rig.ctx, rig.device, meeting.handles[0], &dead.send);
        CHECK(result == PLUGIN_OK && dead.send == NULL, "connect says %d", result);
    }
    rig_connect(&rig, &link, 1);
    rig_connect(&rig, &back, 1);
    use(&rig, &link, 1);
    use(&rig, &back, 1);
    rig_disconnect(&rig, &link, 1);
    rig_disconnect(&rig, &back, 1);
    rig_end(&rig); /* which calls the other one off */
}

static void a_dead_peer_holds_up_no_other(void)
{
    world_run(&(struct world_job){.size = 3, .run = knock_in_vain, .doomed = 1 << VICTIM});
}

/** @return what connect says at last */
static int insist(struct rig *rig, unsigned char *handle)
{
    void *comm = NULL;
    int result = PLUGIN_OK;

    while (result == PLUGIN_OK && comm == NULL) {
        result = plugin_connect(rig->plugin, rig->ctx, rig->device, handle, &comm);
        world_turn("an error of connect");
    }
    return result;
}

static void knock_until_told(const struct world_rank *me, void *arg)
{
    static struct rig_meeting meeting;
    struct rig_link dead = {.from = 0, .to = 1};
    struct rig rig;

    (void)arg;
    putenv((char *)(uintptr_t) "WRING_JOIN_TIMEOUT=0.3");
    rig_begin(&rig, me);
    rig_listen(&rig, &dead, 1, &meeting);
    if (me->rank == 1)
        for (;;)
            world_turn("its death");
    world_kill(1);
    CHECK(insist(&rig, meeting.handles[0]) == PLUGIN_REMOTE_ERROR, "of one who is dead");
    CHECK(world_logged(PLUGIN_LOG_WARN, "no link with") == 1 &&
              world_logged(PLUGIN_LOG_WARN, "WRING_IFACE or WRING_BIND") == 1,
          "no line names the remedy");
    rig_end(&rig);
}

static void a_peer_that_never_answers_is_told(void)
{
    world_run(&(struct world_job){.size = 2, .run = knock_until_told, .doomed = 1 << 1});
}

/** The one who connects is told; who listens takes it for a stranger. */
static void use_another_key(const struct world_rank *me, void *arg)
{
    static char keys[2][32] = {"WRING_KEY=a key of this job", "WRING_KEY=another key"};
    static struct rig_meeting meeting;
    struct rig_link link = {.from = 0, .to = 1};
    struct rig rig;
    int result;

    (void)arg;
    putenv(keys[me->rank]);
    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    if (me->rank == 0) {
        result = insist(&rig, meeting.handles[0]);
        CHECK(result == PLUGIN_INVALID_USAGE, "of another key connect says %d", result);
        CHECK(world_logged(PLUGIN_LOG_WARN, "WRING_KEY or WRING_KEY_FILE") == 1,
              "no line names the remedy");
    }
    world_meet();
    if (me->rank == 1) {
        result = plugin_accept(rig.plugin, meeting.listeners[0], &link.receive);
        CHECK(result == PLUGIN_OK && link.receive == NULL, "a stranger is accepted: %d", result);
        plugin_close_listen(rig.plugin, meeting.listeners[0]);
    }
    rig_end(&rig);
}

static void keys_that_differ_are_told(void)
{
    world_run(&(struct world_job){.size = 2, .run = use_another_key});
}

/* ---- a peer that lies ---- */

#define HANDLE_SECRET 40 /* as dropin/nccl/nccl_handle.c has it */
#define HANDLE_ROOT 56
#define SECRET 16

static int come_to(const unsigned char *handle)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[48];

    snprintf(host, sizeof(host), "%.47s", (const char *)handle + HANDLE_ROOT);
    char *colon = strrchr(host, ':');
    MUST(colon != NULL, "root %s", host);
    *colon = '\0';
    to.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    MUST(inet_pton(AF_INET, host, &to.sin_addr) == 1, "host %s", host);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, "connect");
    return fd;
}

/** By the key in the handle. */
static void prove(int fd, const unsigned char *handle)
{
    uint8_t secret[WRING_SECRET_BYTES], name[16] = {7};
    char key[2 * SECRET + 1], why[160] = "";
    struct wring_auth auth;
    enum wring_status status;

    for (size_t i = 0; i < SECRET; i++)
        snprintf(key + 2 * i, 3, "%02x", handle[HANDLE_SECRET + i]);
    MUST(wring_secret_derive(key, strlen(key), "wring nccl meeting", NULL, 0, secret) == WRING_OK,
         "a secret");
    wring_auth_init(&auth, true, WRING_AUTH_NCCL, secret, name, sizeof(name));
    while ((status = wring_handshake_step(&auth, fd, why, sizeof(why))) == WRING_ERR_AGAIN)
        world_turn("a proof");
    MUST(status == WRING_OK, "who knows the key is refused: %s", why);
}

/** @param how  0: too long; 1: nonsense; 2: cut; 3: a failure; 4: an unknown status; 5: nonsense in
 *  the place of a description. @return its bytes */
static size_t lie(unsigned how, unsigned char *out, size_t room)
{
    uint32_t random = 77 + how;
    size_t n = 60;

    for (size_t i = 0; i < room; i++)
        out[i] = (unsigned char)(wring_test_random(&random) >> 9);
    wring_put_u32(out, how == 0 ? UINT32_MAX : (uint32_t)(n - 4));
    if (how < 3)
        return how == 2 ? n / 2 : n;
    wring_put_u32(out + 4, how == 5 ? 0 : how == 3 ? WRING_ERR_UNSUPPORTED : 9999);
    wring_put_u32(out + 8, 4);
    memcpy(out + 12, "text", 4);
    wring_put_u32(out + 16, (uint32_t)(n - 20));
    return n;
}

static void tell_lies(const struct world_rank *me, void *arg)
{
    static struct rig_meeting meeting;
    struct rig_link link = {.from = 1, .to = 0}, healthy = {.from = 1, .to = 0};
    unsigned how = *(const unsigned *)arg;
    unsigned char text[200];
    struct rig rig;
    int result = PLUGIN_OK;

    rig_begin(&rig, me);
    rig_listen(&rig, &link, 1, &meeting);
    if (me->rank == 1) {
        int fd = come_to(meeting.handles[0]);
        prove(fd, meeting.handles[0]);
        CHECK(send(fd, text, lie(how, text, sizeof(text)), MSG_NOSIGNAL) > 0, "send");
        if (how == 2)
            shutdown(fd, SHUT_WR);
        world_meet(); /* the other end closes when it has read it */
        close(fd);
    } else {
        while (result == PLUGIN_OK && link.receive == NULL) {
            result = plugin_accept(rig.plugin, meeting.listeners[0], &link.receive);
            world_turn("a lie to be told from a peer");
        }
        CHECK(result != PLUGIN_OK, "accept takes lie %u for a peer", how);
        CHECK(world_logged(PLUGIN_LOG_WARN, "no link with") == 1, "lie %u: %u lines say so", how,
              world_logged(PLUGIN_LOG_WARN, "no link with"));
        world_meet();
        plugin_close_listen(rig.plugin, meeting.listeners[0]);
    }
    rig_connect(&rig, &healthy, 1); /* no harm is done */
    use(&rig, &healthy, 1);
    rig_disconnect(&rig, &healthy, 1);
    rig_end(&rig);
}

static void who_lies_is_refused(void)
{
    for (unsigned how = 0; how < 6; how++)
        world_run(&(struct world_job){.size = 2, .run = tell_lies, .arg = &how});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_mesh_needs_one_thread", a_mesh_needs_one_thread},
        {"a_dead_peer_holds_up_no_other", a_dead_peer_holds_up_no_other},
        {"a_peer_that_never_answers_is_told", a_peer_that_never_answers_is_told},
        {"keys_that_differ_are_told", keys_that_differ_are_told},
        {"who_lies_is_refused", who_lies_is_refused},
        {NULL, NULL},
    };
    int taken = rig_take_arguments(argc, argv);

    if (taken == 0)
        return 2;
    return wring_test_main(argc - taken, argv + taken, cases);
}
