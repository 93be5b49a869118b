/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the root hears from ranks, and they from it, on streams that end or fall silent anywhere.
 * An exchange gives everybody's blobs as they were sent, and hands out what the other side reads;
 * or it fails with one line, and who still listens is told.
 *
 * Input: mode (1 byte), ranks (1), then
 * mode 0: the root gathers: for each other rank whether its stream ends (1), bytes (2), the stream;
 * mode 1: a rank contributes, and then hears: whether the stream ends (1), what the root sends;
 * mode 2: a rank hears between exchanges: as mode 1;
 * else: what a rank claims to be when it joins: whether its place is taken (1), its hello.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "transport/bootstrap/rendezvous_root.h"

#define RANKS_MAX 6
#define SEQUENCE 7
#define BLOB "the root's"

struct rig {
    struct wring_rendezvous rendezvous;
    struct wring_log log;
    unsigned lines; /* logged as errors */
    int near[RANKS_MAX], far[RANKS_MAX];
    const uint8_t *stream[RANKS_MAX];
    size_t bytes[RANKS_MAX];
};

static void check_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)module;
    ((struct rig *)arg)->lines += level == WRING_LOG_ERROR;
    FUZZ_CHECK(text[0] != '\0', "an empty line");
    for (; *text != '\0'; text++)
        FUZZ_CHECK(*text >= ' ', "a line with byte %d in it", *text);
}

/** A stream, with all that comes from its other end in it. */
static void add_stream(struct rig *rig, uint32_t rank, const uint8_t *data, size_t bytes, bool ends)
{
    int pair[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "no sockets");
    FUZZ_CHECK(bytes == 0 || send(pair[1], data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes,
               "%zu bytes do not go in", bytes);
    if (ends)
        shutdown(pair[1], SHUT_WR);
    rig->near[rank] = pair[0];
    rig->far[rank] = pair[1];
    rig->stream[rank] = data;
    rig->bytes[rank] = bytes;
}

static void open_rig(struct rig *rig, uint32_t rank, uint32_t size)
{
    *rig = (struct rig){.log = {check_line, rig, WRING_LOG_DEBUG}};
    for (int i = 0; i < RANKS_MAX; i++)
        rig->near[i] = rig->far[i] = -1;
    rig->rendezvous = (struct wring_rendezvous){
        .base = {NULL, rank, size, -1}, .log = &rig->log, .sequence = SEQUENCE, .fds = rig->near};
}

static void close_rig(struct rig *rig)
{
    for (int i = 0; i < RANKS_MAX; i++)
        if (rig->near[i] >= 0) {
            close(rig->near[i]);
            close(rig->far[i]);
        }
}

/** A frame that was sent, with its body. The caller frees it. @return false where there is none */
static bool take_frame(int fd, struct wring_rendezvous_frame *frame, uint8_t **body)
{
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    if (recv(fd, head, sizeof(head), MSG_DONTWAIT) != (ssize_t)sizeof(head))
        return false;
    FUZZ_CHECK(wring_rendezvous_parse(head, frame), "what the root sends is no frame");
    *body = malloc(frame->bytes + 1);
    FUZZ_CHECK(*body != NULL, "out of memory");
    FUZZ_CHECK(frame->bytes == 0 || recv(fd, *body, frame->bytes, MSG_DONTWAIT | MSG_WAITALL) ==
                                        (ssize_t)frame->bytes,
               "a frame that lacks its end");
    return true;
}

/** What each rank gets is what the root has. */
static void check_handed_out(const struct rig *rig, const struct wring_blobs *blobs)
{
    struct wring_rendezvous_frame frame;
    struct wring_blobs theirs;
    uint8_t *body;

    for (uint32_t i = 1; i < blobs->n; i++) {
        size_t bytes = blobs->offsets[i + 1] - blobs->offsets[i];
        FUZZ_CHECK(rig->bytes[i] >= WRING_RENDEZVOUS_FRAME_BYTES + bytes &&
                       memcmp(rig->stream[i] + WRING_RENDEZVOUS_FRAME_BYTES,
                              blobs->storage + blobs->offsets[i], bytes) == 0,
                   "rank %u sent another blob", i);
        FUZZ_CHECK(take_frame(rig->far[i], &frame, &body), "rank %u got nothing", i);
        FUZZ_CHECK(frame.kind == WRING_RENDEZVOUS_RESULT && frame.sequence == SEQUENCE,
                   "rank %u got a frame of kind %d", i, frame.kind);
        FUZZ_CHECK(wring_rendezvous_unpack_result(blobs->n, body, frame.bytes, &theirs) == WRING_OK,
                   "rank %u cannot read the result", i);
        FUZZ_CHECK(memcmp(theirs.offsets, blobs->offsets, (blobs->n + 1) * sizeof(size_t)) == 0 &&
                       memcmp(theirs.storage, blobs->storage, blobs->offsets[blobs->n]) == 0,
                   "rank %u gets other blobs", i);
        wring_blobs_finish(&theirs);
    }
}

static void check_told(const struct rig *rig, uint32_t size, enum wring_status status)
{
    struct wring_rendezvous_frame frame;
    uint8_t *body;

    for (uint32_t i = 1; i < size; i++) {
        FUZZ_CHECK(take_frame(rig->far[i], &frame, &body), "rank %u is told nothing", i);
        FUZZ_CHECK(frame.kind == WRING_RENDEZVOUS_FAILURE &&
                       wring_rendezvous_failure_status(&frame) == status && frame.rank < size &&
                       frame.bytes > 0 && frame.bytes < WRING_RENDEZVOUS_TEXT,
                   "rank %u is told status %u, at fault %u", i, frame.status, frame.rank);
        free(body);
    }
}

static void gather(struct fuzz_input input, uint32_t size)
{
    static const struct wring_patience none = {0, NULL};
    struct rig rig;
    struct wring_blobs blobs;

    open_rig(&rig, 0, size);
    for (uint32_t i = 1; i < size; i++) {
        bool ends = fuzz_take(&input, 1) & 1;
        size_t bytes = fuzz_take(&input, 2);
        bytes = bytes < input.left ? bytes : input.left;
        add_stream(&rig, i, input.data, bytes, ends);
        input.data += bytes;
        input.left -= bytes;
    }
    enum wring_status status =
        wring_rendezvous_gather(&rig.rendezvous, BLOB, sizeof(BLOB), &none, &blobs);
    if (status == WRING_OK) {
        FUZZ_CHECK(blobs.n == size && memcmp(blobs.storage, BLOB, sizeof(BLOB)) == 0 &&
                       blobs.offsets[0] == 0 && blobs.offsets[1] == sizeof(BLOB) && rig.lines == 0,
                   "%u blobs, %u lines", blobs.n, rig.lines);
        check_handed_out(&rig, &blobs);
        wring_blobs_finish(&blobs);
    } else {
        FUZZ_CHECK((status == WRING_ERR_PEER || status == WRING_ERR_FRAME) && rig.lines == 1,
                   "status %d, %u lines", status, rig.lines);
        check_told(&rig, size, status);
    }
    close_rig(&rig);
}

static bool is_error(enum wring_status status)
{
    return status > WRING_OK && status <= WRING_ERR_SYSTEM;
}

static void hear(struct fuzz_input input, uint32_t size, bool contributes)
{
    static const struct wring_patience none = {0, NULL};
    struct rig rig;
    struct wring_blobs blobs = {0};
    enum wring_status status = WRING_OK;

    open_rig(&rig, 1, size);
    bool ends = fuzz_take(&input, 1) & 1;
    add_stream(&rig, 0, input.data, input.left, ends || !contributes); /* it waits for frames */
    if (contributes)
        status = wring_rendezvous_contribute(&rig.rendezvous, "x", 1, &none, &blobs);
    if (contributes && status == WRING_OK) {
        FUZZ_CHECK(blobs.n == size && blobs.offsets[0] == 0 && rig.lines == 0, "%u blobs", blobs.n);
        for (uint32_t i = 0; i < size; i++)
            FUZZ_CHECK(blobs.offsets[i] <= blobs.offsets[i + 1], "blob %u ends early", i);
        FUZZ_CHECK(blobs.offsets[size] <= input.left, "more than was sent");
        wring_blobs_finish(&blobs);
    }
    if (!contributes)
        status = wring_rendezvous_hear(&rig.rendezvous);
    if (status == WRING_OK)
        FUZZ_CHECK(contributes, "a stream that ended went unnoticed");
    else
        FUZZ_CHECK(is_error(status) && rig.lines == 1 && rig.rendezvous.base.at_fault >= -1 &&
                       rig.rendezvous.base.at_fault < (int32_t)size,
                   "status %d, %u lines, at fault %d", status, rig.lines,
                   rig.rendezvous.base.at_fault);
    close_rig(&rig);
}

static void claim(struct fuzz_input input, uint32_t size)
{
    struct wring_rendezvous_claim claim = {.from = "somewhere"};
    struct wring_rendezvous_verdict verdict = {0};
    bool held = fuzz_take(&input, 1) & 1;

    if (held)
        snprintf(claim.holder, sizeof(claim.holder), "elsewhere");
    wring_rendezvous_read_claim(input.data, input.left, &claim);
    wring_rendezvous_judge(&claim, size, &verdict);
    bool good = input.left == WRING_RENDEZVOUS_HELLO_BYTES && claim.size == size &&
                claim.rank >= 1 && claim.rank < size && !held;
    FUZZ_CHECK(good ? verdict.status == WRING_OK && verdict.text[0] == '\0'
                    : verdict.status == WRING_ERR_MISMATCH && verdict.text[0] != '\0',
               "rank %u of %u: status %d", claim.rank, claim.size, verdict.status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint32_t mode = fuzz_take(&input, 1);
    uint32_t ranks = 2 + fuzz_take(&input, 1) % (RANKS_MAX - 1);

    if (mode == 0)
        gather(input, ranks);
    else if (mode <= 2)
        hear(input, ranks, mode == 1);
    else
        claim(input, ranks);
    return 0;
}
