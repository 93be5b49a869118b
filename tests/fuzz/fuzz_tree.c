/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What ranks of a large job say to each other as they make their tree, exchange over it, and look
 * at each other between exchanges. The streams hold what honest ranks say, changed in places. What
 * nobody has changed succeeds; else a rank fails with one line, or gets what was sent.
 *
 * Input: what is done (1): 0 rank 0 makes the tree, 1 rank 4 joins it, 2 rank 0 exchanges, 3 rank 1
 * does, 4 rank 0 looks, else rank 1 looks; then changes: the stream (1), the place in it (2), and
 * how (1): 0 overwrite, 1 insert: bytes (1), the bytes; 2 erase: bytes (1); else it ends there.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "tests/fuzz/fuzz.h"
#include "transport/bootstrap/rendezvous_tree_private.h"

#define SIZE 17 /* the least that makes a tree: ranks 1 to 3 have four children each */
#define SEQUENCE 7
#define STREAM_MAX 4096
#define PLACE_BYTES 24
#define LATE_NS (60 * WRING_NS_PER_S)

enum deed {
    PLANT_ROOT,
    PLANT_RANK,
    EXCHANGE_ROOT,
    EXCHANGE_RANK,
    LOOK_ROOT,
    LOOK_RANK
};

/** What comes from a neighbour. */
struct speech {
    uint8_t data[STREAM_MAX];
    size_t bytes;
    bool ends;
    int near, far;
};

struct rig {
    struct wring_rendezvous rendezvous;
    struct wring_log log;
    struct wring_clock clock;
    struct wring_cancel cancel;
    unsigned lines;
    uint64_t heard; /* and said: frames, when it last waited */
    bool honest;    /* nothing was changed */
    int fds[SIZE];
    struct speech speeches[SIZE]; /* by rank */
};

static void check_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)module;
    ((struct rig *)arg)->lines += level == WRING_LOG_ERROR;
    FUZZ_CHECK(text[0] != '\0', "an empty line");
    for (; *text != '\0'; text++)
        FUZZ_CHECK(*text >= ' ', "a line with byte %d in it", *text);
}

static bool has_come(int fd)
{
    struct pollfd pollfd = {fd, POLLIN, 0};
    return fd >= 0 && poll(&pollfd, 1, 0) > 0;
}

/** Is there anything that the rank could read? */
static bool has_any_come(const struct rig *rig)
{
    const struct wring_rendezvous_tree *tree = rig->rendezvous.tree;
    bool any = has_come(tree->up.fd);

    for (uint32_t i = 0; i < SIZE; i++)
        any |= has_come(rig->fds[i]);
    for (uint32_t i = 0; i < tree->n; i++)
        any |= has_come(tree->down[i].fd);
    return any;
}

/** The rank waits. If it has got nothing since it last did, nothing will come: it is late. */
static bool pass_time(void *arg)
{
    struct rig *rig = arg;
    const struct wring_rendezvous_tree *tree = rig->rendezvous.tree;
    uint64_t heard = tree->traffic.frames_received + tree->traffic.frames_sent;

    if (heard == rig->heard || !has_any_come(rig))
        rig->clock.now_ns += LATE_NS;
    rig->heard = heard;
    return false;
}

/* ---- what honest ranks say ---- */

static void say(struct rig *rig, uint32_t who, struct wring_rendezvous_frame frame,
                const void *body)
{
    struct speech *speech = &rig->speeches[who];

    FUZZ_CHECK(speech->bytes + WRING_RENDEZVOUS_FRAME_BYTES + frame.bytes <= STREAM_MAX,
               "too much");
    wring_rendezvous_pack(&frame, speech->data + speech->bytes);
    memcpy(speech->data + speech->bytes + WRING_RENDEZVOUS_FRAME_BYTES, body, frame.bytes);
    speech->bytes += WRING_RENDEZVOUS_FRAME_BYTES + frame.bytes;
}

static void say_place(struct rig *rig, uint32_t who, enum wring_rendezvous_kind kind, bool has_port)
{
    uint8_t place[PLACE_BYTES] = {0};

    wring_put_u32(place, has_port ? 5555 : 0);
    say(rig, who, (struct wring_rendezvous_frame){.kind = kind, .bytes = sizeof(place)}, place);
}

static int write_blob(char text[16], uint32_t rank)
{
    return snprintf(text, 16, "blob %u", rank);
}

static void say_blob(struct rig *rig, uint32_t who, uint32_t rank)
{
    char text[16];
    int bytes = write_blob(text, rank);

    say(rig, who,
        (struct wring_rendezvous_frame){.kind = WRING_RENDEZVOUS_BLOB,
                                        .sequence = SEQUENCE,
                                        .rank = rank,
                                        .bytes = (uint64_t)bytes},
        text);
}

static void say_result(struct rig *rig)
{
    struct wring_writer body = {0};
    char text[16];

    for (uint32_t i = 0; i < SIZE; i++) {
        int bytes = write_blob(text, i);
        wring_write_u64(&body, (uint64_t)bytes);
        wring_write(&body, text, (size_t)bytes);
    }
    say(rig, 0,
        (struct wring_rendezvous_frame){
            .kind = WRING_RENDEZVOUS_RESULT, .sequence = SEQUENCE, .bytes = body.bytes},
        body.data);
    free(body.data);
}

/** A child's blobs: its own, and those of the ranks below it. */
static void say_blobs(struct rig *rig, uint32_t who)
{
    struct wring_rendezvous_children children = wring_rendezvous_children(who, SIZE);

    say_blob(rig, who, who);
    for (uint32_t i = 0; i < children.n; i++)
        say_blob(rig, who, children.first + i);
}

static void say_all(struct rig *rig, enum deed deed)
{
    const struct wring_rendezvous_frame planted = {.kind = WRING_RENDEZVOUS_PLANTED};

    for (uint32_t i = 1; i < SIZE && deed == PLANT_ROOT; i++) {
        say_place(rig, i, WRING_RENDEZVOUS_PLACE, wring_rendezvous_children(i, SIZE).n > 0);
        say(rig, i, planted, "");
    }
    if (deed == PLANT_RANK)
        say_place(rig, 0, WRING_RENDEZVOUS_PARENT, true);
    for (uint32_t i = 1; i <= WRING_RENDEZVOUS_FAN && deed == EXCHANGE_ROOT; i++)
        say_blobs(rig, i);
    for (uint32_t i = 5; i <= 8 && deed == EXCHANGE_RANK; i++)
        say_blobs(rig, i);
    if (deed == EXCHANGE_RANK)
        say_result(rig);
}

static void change(struct rig *rig, struct fuzz_input *input)
{
    struct speech *speech = &rig->speeches[fuzz_take(input, 1) % SIZE];
    size_t place = fuzz_take(input, 2) % (speech->bytes + 1);
    uint32_t how = fuzz_take(input, 1);
    size_t n = how <= 2 ? fuzz_take(input, 1) : 0;
    uint8_t *at = speech->data + place;

    rig->honest = false;
    if (how > 2) {
        speech->bytes = place;
        speech->ends = true;
        return;
    }
    n = how <= 1 && n > input->left ? input->left : n;
    if (how == 2) {
        n = n < speech->bytes - place ? n : speech->bytes - place;
        memmove(at, at + n, speech->bytes - place - n);
        speech->bytes -= n;
        return;
    }
    size_t room = how == 0 ? STREAM_MAX - place : STREAM_MAX - speech->bytes;
    n = n < room ? n : room;
    if (how == 1) {
        memmove(at + n, at, speech->bytes - place);
        speech->bytes += n;
    } else if (place + n > speech->bytes) {
        speech->bytes = place + n;
    }
    memcpy(at, input->data, n);
    input->data += n;
    input->left -= n;
}

/* ---- the rank that hears it ---- */

static void open_stream(struct speech *speech, bool ends)
{
    int pair[2];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "no sockets");
    FUZZ_CHECK(speech->bytes == 0 || send(pair[1], speech->data, speech->bytes, MSG_NOSIGNAL) ==
                                         (ssize_t)speech->bytes,
               "%zu bytes do not go in", speech->bytes);
    if (ends)
        shutdown(pair[1], SHUT_WR);
    speech->near = pair[0];
    speech->far = pair[1];
}

static void open_rank(struct rig *rig, enum deed deed)
{
    bool looks = deed >= LOOK_ROOT, plants = deed <= PLANT_RANK;
    uint32_t rank = deed == PLANT_RANK ? 4 : deed == EXCHANGE_RANK || deed == LOOK_RANK;
    struct wring_rendezvous_children children = wring_rendezvous_children(rank, SIZE);

    rig->rendezvous = (struct wring_rendezvous){
        .base = {NULL, rank, SIZE, -1}, .log = &rig->log, .sequence = SEQUENCE, .fds = rig->fds};
    for (uint32_t i = 0; i < SIZE; i++) {
        struct speech *speech = &rig->speeches[i];
        bool below = i - children.first < children.n, above = i == 0 && rank != 0;
        speech->near = speech->far = rig->fds[i] = -1;
        if (!below && !above && !(deed == PLANT_ROOT && i > 0))
            continue;
        open_stream(speech, speech->ends || (looks && speech->bytes > 0)); /* it awaits the rest */
        if (plants)
            rig->fds[i] = speech->near;
    }
    if (plants)
        return;
    struct wring_rendezvous_tree *tree = calloc(1, sizeof(*tree));
    FUZZ_CHECK(tree != NULL, "out of memory");
    tree->up.fd = rank != 0 ? rig->speeches[0].near : -1;
    tree->n = children.n;
    for (uint32_t i = children.n; i < WRING_RENDEZVOUS_FAN; i++)
        tree->down[i].fd = -1;
    for (uint32_t i = 0; i < children.n; i++)
        tree->down[i] = (struct wring_rendezvous_stream){
            .fd = rig->speeches[children.first + i].near, .rank = children.first + i};
    rig->rendezvous.tree = tree;
}

static void close_rank(struct rig *rig)
{
    wring_rendezvous_tree_destroy(rig->rendezvous.tree);
    for (uint32_t i = 0; i < SIZE; i++) {
        if (rig->fds[i] >= 0)
            close(rig->fds[i]);
        if (rig->speeches[i].far >= 0)
            close(rig->speeches[i].far);
    }
}

static void check_blobs(const struct rig *rig, const struct wring_blobs *blobs)
{
    char text[16];

    FUZZ_CHECK(blobs->n == SIZE && blobs->offsets[0] == 0, "%u blobs", blobs->n);
    for (uint32_t i = 0; i < SIZE; i++) {
        size_t bytes = blobs->offsets[i + 1] - blobs->offsets[i];
        FUZZ_CHECK(blobs->offsets[i] <= blobs->offsets[i + 1], "blob %u ends early", i);
        FUZZ_CHECK(!rig->honest || (bytes == (size_t)write_blob(text, i) &&
                                    memcmp(blobs->storage + blobs->offsets[i], text, bytes) == 0),
                   "blob %u is another", i);
    }
}

static enum wring_status exchange(struct rig *rig, const struct wring_patience *patience)
{
    struct wring_blobs blobs;
    char text[16];
    int bytes = write_blob(text, rig->rendezvous.base.rank);
    enum wring_status status =
        wring_rendezvous_tree_exchange(&rig->rendezvous, text, (size_t)bytes, patience, &blobs);
    if (status != WRING_OK)
        return status;
    check_blobs(rig, &blobs);
    wring_blobs_finish(&blobs);
    return WRING_OK;
}

static void check_planted(const struct rig *rig)
{
    const struct wring_rendezvous_tree *tree = rig->rendezvous.tree;
    uint32_t rank = rig->rendezvous.base.rank;

    FUZZ_CHECK(tree->n == wring_rendezvous_children(rank, SIZE).n, "%u children", tree->n);
    for (uint32_t i = 0; i < tree->n; i++)
        FUZZ_CHECK(tree->down[i].fd >= 0, "child %u is not there", i);
    FUZZ_CHECK((tree->up.fd >= 0) == (rank != 0), "the parent");
}

static enum wring_status act(struct rig *rig, enum deed deed)
{
    static const uint8_t secret[WRING_SECRET_BYTES] = {7};
    const struct wring_patience patience = {rig->clock.now_ns + WRING_NS_PER_MS, &rig->cancel};
    const struct wring_rendezvous_params params = {.deadline_ns = patience.deadline_ns,
                                                   .cancel = &rig->cancel};

    if (deed >= LOOK_ROOT)
        return wring_rendezvous_tree_check(&rig->rendezvous);
    if (deed >= EXCHANGE_ROOT)
        return exchange(rig, &patience);
    enum wring_status status = wring_rendezvous_plant(&rig->rendezvous, &params, secret);
    if (status == WRING_OK)
        check_planted(rig);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig rig;
    struct fuzz_input input = {data, size};
    enum deed deed = (enum deed)fuzz_take(&input, 1);

    deed = deed <= LOOK_RANK ? deed : LOOK_RANK;
    rig = (struct rig){
        .log = {check_line, &rig, WRING_LOG_DEBUG},
        .clock = {.now_ns = WRING_NS_PER_S},
        .cancel = {pass_time, &rig},
        .heard = deed == PLANT_RANK ? 1 : UINT64_MAX, /* it has spoken, and need not wait */
        .honest = true};
    say_all(&rig, deed);
    while (input.left > 0)
        change(&rig, &input);
    open_rank(&rig, deed);
    wring_clock_give(&rig.clock);
    enum wring_status status = act(&rig, deed);
    wring_clock_give(NULL);
    if (status == WRING_OK)
        FUZZ_CHECK(rig.lines == 0, "%u lines", rig.lines);
    else
        FUZZ_CHECK(!rig.honest && status <= WRING_ERR_SYSTEM && rig.lines == 1 &&
                       rig.rendezvous.base.at_fault >= -1 && rig.rendezvous.base.at_fault < SIZE,
                   "status %d, %u lines, at fault %d", status, rig.lines,
                   rig.rendezvous.base.at_fault);
    close_rank(&rig);
    return 0;
}
