/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What another rank of the job says when ranks open and commit. Rank 0 is a real
 * session. What rank 1 says to it was recorded from a real one at the start, which stays there idle
 * to keep the connection; every run says the same again, but for some changes. Said unchanged,
 * rank 0 succeeds; else it succeeds or fails with one clean line, and can do it again either way.
 *
 * Input: what to do (1 byte: 0 commit, else open), then changes, each
 * message (1 byte), kind (1), place (2), n (1), and for kinds 0 and 1 that many bytes.
 */
#include <pthread.h>

#include "tests/fuzz/fuzz.h"
#include <wring/bootstrap.h>
#include <wring/wring.h>

#define MESSAGES_MAX 8
#define ELEMS 3000

enum change {
    OVERWRITE,
    INSERT,
    ERASE,
    CUT,
    CHANGES
};

enum deed {
    COMMIT,
    OPEN,
    DEEDS
};

/** What rank 1 said in the exchanges of one deed. */
struct record {
    struct message {
        uint8_t *data;
        size_t bytes;
    } messages[MESSAGES_MAX];
    uint32_t n;
};

/** Rank 0's way to meet the others. */
struct teller {
    struct wring_bootstrap base;
    struct wring_bootstrap *honest; /* NULL: tell what was recorded */
    struct record *record;          /* written with an honest one, read without */
    struct fuzz_input changes;
    uint32_t at;
};

static struct record records[DEEDS];
static struct teller teller;
static struct wring_bootstrap *ends[2];
static struct wring_session *sessions[2];
static float data[2][2][ELEMS]; /* by rank and bucket */
static unsigned lines;          /* that rank 0 logged as errors */

static void keep(struct record *record, const void *from, size_t bytes)
{
    void *allocation;
    FUZZ_CHECK(record->n < MESSAGES_MAX, "too many exchanges");
    struct message *message = &record->messages[record->n++];
    message->data = fuzz_copy(from, bytes, 0, &allocation);
    message->bytes = bytes;
}

/** One change, where it is to this message. @return the message's bytes, in [FUZZ_BYTES_MAX] */
static size_t change(uint8_t *message, size_t bytes, struct fuzz_input *changes, uint32_t at)
{
    uint32_t number = fuzz_take(changes, 1) % MESSAGES_MAX;
    enum change kind = fuzz_take(changes, 1) % CHANGES;
    size_t position = fuzz_take(changes, 2) % (bytes + 1), n = fuzz_take(changes, 1);
    const uint8_t *with = changes->data;

    if (kind == OVERWRITE || kind == INSERT) {
        n = n < changes->left ? n : changes->left;
        changes->data += n;
        changes->left -= n;
    }
    if (number != at)
        return bytes;
    if (kind == CUT)
        return position;
    if (kind == INSERT) {
        n = n < FUZZ_BYTES_MAX - bytes ? n : FUZZ_BYTES_MAX - bytes;
        memmove(message + position + n, message + position, bytes - position);
        bytes += n;
    }
    n = n < bytes - position ? n : bytes - position;
    if (kind == ERASE) {
        memmove(message + position, message + position + n, bytes - position - n);
        return bytes - n;
    }
    if (n > 0)
        memcpy(message + position, with, n);
    return bytes;
}

static enum wring_status tell(struct teller *from, const void *blob, size_t bytes,
                              struct wring_blobs *out)
{
    static uint8_t message[FUZZ_BYTES_MAX];
    struct fuzz_input changes = from->changes;
    uint32_t at = from->at++;

    if (at >= from->record->n) { /* more than the real one had to say */
        lines++;                 /* a bootstrap logs that nobody answers */
        return WRING_ERR_PEER;
    }
    size_t said = from->record->messages[at].bytes;
    memcpy(message, from->record->messages[at].data, said);
    while (changes.left > 0)
        said = change(message, said, &changes, at);
    struct wring_blobs blobs = {
        .n = 2, .offsets = calloc(3, sizeof(size_t)), .storage = malloc(bytes + said + 1)};
    FUZZ_CHECK(blobs.offsets != NULL && blobs.storage != NULL, "out of memory");
    blobs.offsets[1] = bytes;
    blobs.offsets[2] = bytes + said;
    memcpy(blobs.storage, blob, bytes);
    memcpy(blobs.storage + bytes, message, said);
    *out = blobs;
    return WRING_OK;
}

static enum wring_status teller_exchange(struct wring_bootstrap *base, const void *blob,
                                         size_t bytes, uint64_t deadline_ns,
                                         const struct wring_cancel *cancel, struct wring_blobs *out)
{
    struct teller *from = (struct teller *)base;
    if (from->honest == NULL)
        return tell(from, blob, bytes, out);
    enum wring_status status =
        from->honest->ops->exchange(from->honest, blob, bytes, deadline_ns, cancel, out);
    if (status == WRING_OK)
        keep(from->record, out->storage + out->offsets[1], out->offsets[2] - out->offsets[1]);
    return status;
}

/** Nobody connects to a session that is told tales. */
static enum wring_status teller_check(struct wring_bootstrap *base)
{
    return ((struct teller *)base)->honest == NULL ? WRING_ERR_PEER : WRING_OK;
}

static const char *teller_address(struct wring_bootstrap *base)
{
    (void)base;
    return "";
}

static void teller_close(struct wring_bootstrap *base)
{
    (void)base;
}

static const struct wring_bootstrap_ops teller_ops = {
    .name = "teller",
    .exchange = teller_exchange,
    .check = teller_check,
    .local_address = teller_address,
    .close = teller_close,
};

static void check_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)module;
    lines += level == WRING_LOG_ERROR;
    FUZZ_CHECK(text[0] != '\0', "an empty line");
    for (; *text != '\0'; text++)
        FUZZ_CHECK((unsigned char)*text >= ' ', "a line with byte %d in it", *text);
}

static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static enum wring_status open_session(struct wring_bootstrap *bootstrap, wring_log_fn log,
                                      struct wring_session **out)
{
    static const char *const settings[] = {"WRING_CHUNK_BYTES=4k", "WRING_JOIN_TIMEOUT=60s",
                                           "WRING_BYPASS=never", NULL};
    const struct wring_session_params params = {
        .bootstrap = bootstrap, .provider = "tcp", .settings = settings, .log = log};
    return wring_session_open(&params, out);
}

static void record_from(uint32_t rank, enum deed deed)
{
    if (rank == 0)
        teller.record = &records[deed];
}

/** Both ranks once, honestly. Bucket "b" is put into in place, "a" is not. */
static void do_all(uint32_t rank, struct wring_bootstrap *bootstrap)
{
    struct wring_session **session = &sessions[rank];
    struct wring_bucket *bucket;
    void *memory;

    record_from(rank, OPEN);
    FUZZ_CHECK(open_session(bootstrap, rank == 0 ? check_line : drop_line, session) == WRING_OK,
               "rank %u does not open", rank);
    FUZZ_CHECK(wring_buffer_alloc(*session, ELEMS * sizeof(float), &memory) == WRING_OK, "buffer");
    const struct wring_bucket_params params[] = {
        {.name = "a", .data = data[rank][0], .elems = ELEMS, .codec = "onebit+ef"},
        {.name = "b", .data = memory, .elems = ELEMS, .scheme = WRING_SCHEME_DIVISIBLE},
        {.name = "c", .data = data[rank][1], .elems = ELEMS, .scheme = WRING_SCHEME_DIVISIBLE},
    };
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
        FUZZ_CHECK(wring_bucket_register(*session, &params[i], &bucket) == WRING_OK, "bucket");
    record_from(rank, COMMIT);
    FUZZ_CHECK(wring_session_commit(*session) == WRING_OK, "rank %u does not commit", rank);
}

static void *be_rank_1(void *arg)
{
    (void)arg;
    do_all(1, ends[1]);
    return NULL;
}

/** Once per process: both sessions stay. */
static void prepare(void)
{
    pthread_t thread;
    FUZZ_CHECK(wring_bootstrap_local_create(2, ends) == WRING_OK, "no bootstrap");
    teller = (struct teller){.base = {&teller_ops, 0, 2, -1}, .honest = ends[0]};
    FUZZ_CHECK(pthread_create(&thread, NULL, be_rank_1, NULL) == 0, "no thread");
    do_all(0, &teller.base);
    pthread_join(thread, NULL);
    teller.honest = NULL;
    FUZZ_CHECK(lines == 0, "%u lines from honest ranks", lines);
}

static enum wring_status try_to_open(void)
{
    struct teller other = teller;
    struct wring_session *session;
    enum wring_status status = open_session(&other.base, check_line, &session);
    FUZZ_CHECK(status != WRING_OK, "open, without any peer");
    return status;
}

static enum wring_status do_once(enum deed deed, struct fuzz_input changes)
{
    teller.record = &records[deed];
    teller.changes = changes;
    teller.at = 0;
    lines = 0;
    if (deed == OPEN)
        return try_to_open();
    return wring_session_commit(sessions[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    struct fuzz_input changes = {input, size};
    uint32_t choice = fuzz_take(&changes, 1);
    enum deed deed = choice == COMMIT ? COMMIT : OPEN;

    if (sessions[0] == NULL)
        prepare();
    enum wring_status status = do_once(deed, changes);
    FUZZ_CHECK(status >= WRING_OK && status <= WRING_ERR_SYSTEM && status != WRING_ERR_AGAIN,
               "status %d", status);
    if (deed == OPEN)
        return 0;
    FUZZ_CHECK(status == WRING_OK ? lines == 0 : lines >= 1 && lines <= 2, "status %d, %u lines",
               status, lines); /* what differs, and what all agreed on */
    if (changes.left == 0 || status != WRING_OK)
        FUZZ_CHECK(do_once(deed, (struct fuzz_input){NULL, 0}) == WRING_OK, "an honest peer fails");
    return 0;
}
