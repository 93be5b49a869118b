/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Saved states: refused with nothing taken over, or taken over so that what is saved next loads.
 *
 * Input: a state without its magic and its digest, which are added here: a digest keeps out
 * accidents, not people. It is read in the layouts of both magics. The session is rank 0 of 1, with
 * buckets "a" (40 elements, int8+ef, divisible: all residuals are the owner's), "b" (30, onebit+ef,
 * indivisible: its own), and "m" (20) and "o" (50), whose codecs keep momentum of contributions and
 * of sums.
 */
#include <openssl/evp.h>

#include "tests/fuzz/fuzz.h"
#include "tests/lib/momentum.h"
#include <wring/bootstrap.h>
#include <wring/wring.h>

#define MAGIC_BYTES 8
#define DIGEST_BYTES 32
#define SAVED_MAX 4096

static const char *const magics[] = {"wringst1", "wringst2"};

static struct wring_session *session;

static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void add_bucket(const struct wring_bucket_params *params)
{
    struct wring_bucket *bucket;
    FUZZ_CHECK(wring_bucket_register(session, params, &bucket) == WRING_OK, "no bucket");
}

/** Once per process: the session stays open. */
static void open_session(void)
{
    static const char *const settings[] = {"WRING_PROGRESS=caller", NULL};
    static struct wring_bootstrap *alone[1];
    static float a[40], b[30], m[20], o[50];
    FUZZ_CHECK(wring_bootstrap_local_create(1, alone) == WRING_OK, "no bootstrap");
    const struct wring_session_params params = {
        .bootstrap = alone[0], .settings = settings, .log = drop_line, .codecs = momentum_codecs};
    FUZZ_CHECK(wring_session_open(&params, &session) == WRING_OK, "no session");
    add_bucket(&(struct wring_bucket_params){.name = "a",
                                             .data = a,
                                             .elems = 40,
                                             .codec = "int8:block=32+ef",
                                             .scheme = WRING_SCHEME_DIVISIBLE});
    add_bucket(&(struct wring_bucket_params){.name = "b",
                                             .data = b,
                                             .elems = 30,
                                             .codec = "onebit+ef",
                                             .scheme = WRING_SCHEME_INDIVISIBLE});
    add_bucket(&(struct wring_bucket_params){.name = "m", .data = m, .elems = 20, .codec = "mom"});
    add_bucket(&(struct wring_bucket_params){
        .name = "o", .data = o, .elems = 50, .codec = "ownmom", .scheme = WRING_SCHEME_DIVISIBLE});
    FUZZ_CHECK(wring_session_commit(session) == WRING_OK, "no commit");
}

static size_t save(uint8_t *state)
{
    size_t bytes = SAVED_MAX;
    FUZZ_CHECK(wring_session_save_state(session, state, &bytes) == WRING_OK, "cannot save");
    return bytes;
}

static enum wring_status load(const char *magic, const uint8_t *body, size_t bytes)
{
    size_t all = MAGIC_BYTES + bytes + DIGEST_BYTES;
    uint8_t *state = malloc(all);
    FUZZ_CHECK(state != NULL, "out of memory");
    memcpy(state, magic, MAGIC_BYTES);
    if (bytes > 0)
        memcpy(state + MAGIC_BYTES, body, bytes);
    FUZZ_CHECK(EVP_Digest(state, MAGIC_BYTES + bytes, state + MAGIC_BYTES + bytes, NULL,
                          EVP_sha256(), NULL) == 1,
               "no digest");
    enum wring_status status = wring_session_load_state(session, state, all);
    free(state);
    return status;
}

static void check_load(const char *magic, const uint8_t *data, size_t size)
{
    uint8_t before[SAVED_MAX], after[SAVED_MAX];
    size_t bytes = save(before);
    enum wring_status status = load(magic, data, size);

    FUZZ_CHECK(save(after) == bytes, "the state grew");
    if (status == WRING_OK)
        FUZZ_CHECK(wring_session_load_state(session, after, bytes) == WRING_OK,
                   "what was taken over does not load");
    else
        FUZZ_CHECK((status == WRING_ERR_FRAME || status == WRING_ERR_MISMATCH) &&
                       memcmp(before, after, bytes) == 0,
                   "refused with %d, but taken over in part", status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (session == NULL)
        open_session();
    for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
        check_load(magics[i], data, size);
    return 0;
}
