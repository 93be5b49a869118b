/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/auth.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

bool wring_hmac(const uint8_t *key, size_t key_bytes, const void *data, size_t bytes,
                uint8_t out[WRING_MAC_BYTES])
{
    unsigned written = 0;

    /* A child that another thread forks meanwhile has copies of libcrypto's locks as they are now:
     * its exit() would wait for one of them in the clean-up that this leaves out. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    return HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, out, &written) != NULL &&
           written == WRING_MAC_BYTES;
}

bool wring_random_bytes(uint8_t *out, size_t bytes)
{
    for (;;) {
        ssize_t n = getrandom(out, bytes, 0); /* up to 256 bytes come whole */
        if (n == (ssize_t)bytes)
            return true;
        if (n >= 0 || errno != EINTR)
            return false;
    }
}

enum wring_status wring_secret_derive(const void *key, size_t bytes, const char *label,
                                      const void *salt, size_t salt_bytes,
                                      uint8_t out[WRING_SECRET_BYTES])
{
    static const uint8_t no_salt[WRING_MAC_BYTES];
    uint8_t inner[WRING_MAC_BYTES], text[128];
    size_t label_bytes = strlen(label);
    assert(label_bytes < sizeof(text));

    memcpy(text, label, label_bytes);
    text[label_bytes] = 1; /* the number of the block of output: there is one */
    if (salt_bytes == 0) {
        salt = no_salt;
        salt_bytes = sizeof(no_salt);
    }
    bool good = wring_hmac(salt, salt_bytes, key, bytes, inner) &&
                wring_hmac(inner, sizeof(inner), text, label_bytes + 1, out);
    OPENSSL_cleanse(inner, sizeof(inner));
    return good ? WRING_OK : WRING_ERR_SYSTEM;
}

/* ---- auth ---- */

#define MAGIC "WRNG"
#define PREFIX_BYTES 8 /* magic, version and one u16: the same in every version, ever */

/* where things lie in the transcript */
#define HELLO_SIZE_AT 8
#define FIRST_NONCE_AT 12
#define HELLO_AT (FIRST_NONCE_AT + WRING_AUTH_NONCE_BYTES)
#define SECOND_AT WRING_AUTH_FIRST_BYTES
#define SECOND_NONCE_AT (SECOND_AT + PREFIX_BYTES)
#define SECOND_MAC_AT (SECOND_NONCE_AT + WRING_AUTH_NONCE_BYTES)
#define THIRD_AT (SECOND_AT + WRING_AUTH_SECOND_BYTES)
#define FOURTH_AT (THIRD_AT + WRING_AUTH_MAC_BYTES)

/* the u16 of the second message: far from any purpose, so that an echo is not mistaken */
enum verdict {
    VERDICT_GO_ON = 0xA000,
    VERDICT_VERSION = 0xA001,
    VERDICT_PURPOSE = 0xA002,
};

/* the last byte */
enum outcome {
    OUTCOME_WELCOME = 1,
    OUTCOME_WRONG_KEY = 2,
};

static void put_u16(uint8_t *to, unsigned value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static uint16_t get_u16(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

static void put_prefix(uint8_t *to, unsigned last)
{
    memcpy(to, MAGIC, 4);
    put_u16(to + 4, WRING_WIRE_VERSION);
    put_u16(to + 6, last);
}

/** The proof over the first `bytes` of the transcript; the label keeps the roles apart. */
static bool make_proof(const struct wring_auth *auth, const char *label, size_t bytes,
                       uint8_t out[WRING_AUTH_MAC_BYTES])
{
    uint8_t text[16 + WRING_AUTH_TRANSCRIPT_BYTES];
    size_t label_bytes = strlen(label);
    memcpy(text, label, label_bytes);
    memcpy(text + label_bytes, auth->transcript, bytes);
    return wring_hmac(auth->secret, sizeof(auth->secret), text, label_bytes + bytes, out);
}

static bool make_acceptor_proof(const struct wring_auth *auth, uint8_t out[WRING_AUTH_MAC_BYTES])
{
    return make_proof(auth, "wring acceptor", SECOND_MAC_AT, out);
}

static bool make_initiator_proof(const struct wring_auth *auth, uint8_t out[WRING_AUTH_MAC_BYTES])
{
    return make_proof(auth, "wring initiator", THIRD_AT, out);
}

static void end_handshake(struct wring_auth *auth, enum wring_status status)
{
    auth->status = status;
    OPENSSL_cleanse(auth->secret, sizeof(auth->secret));
}

static void begin_message(struct wring_auth *auth, unsigned message)
{
    static const size_t ends[] = {SECOND_AT, THIRD_AT, FOURTH_AT, WRING_AUTH_TRANSCRIPT_BYTES};
    auth->message = message;
    auth->start = auth->at = message == 0 ? 0 : ends[message - 1];
    auth->end = ends[message];
}

static bool is_own_message(const struct wring_auth *auth)
{
    return (auth->message % 2 == 0) == auth->initiator;
}

/** End here; with last words, of which `bytes` lie at the start of the next message. */
static void end_with_last_words(struct wring_auth *auth, enum wring_status status, size_t bytes)
{
    begin_message(auth, auth->message + 1);
    auth->end = auth->start + bytes;
    end_handshake(auth, status);
}

static void abandon_handshake(struct wring_auth *auth, enum wring_status status)
{
    auth->at = auth->end; /* neither sends nor takes any more */
    end_handshake(auth, status);
}

void wring_auth_init(struct wring_auth *auth, bool initiator, uint16_t purpose,
                     const uint8_t secret[WRING_SECRET_BYTES], const void *hello,
                     size_t hello_bytes)
{
    assert(hello_bytes <= WRING_HELLO_MAX);
    memset(auth, 0, sizeof(*auth));
    auth->initiator = initiator;
    auth->purpose = purpose;
    auth->status = WRING_ERR_AGAIN;
    memcpy(auth->secret, secret, sizeof(auth->secret));
    begin_message(auth, 0);
    if (!initiator)
        return;

    put_prefix(auth->transcript, purpose);
    put_u16(auth->transcript + HELLO_SIZE_AT, (unsigned)hello_bytes);
    if (hello_bytes > 0)
        memcpy(auth->transcript + HELLO_AT, hello, hello_bytes);
    if (!wring_random_bytes(auth->transcript + FIRST_NONCE_AT, WRING_AUTH_NONCE_BYTES))
        abandon_handshake(auth, WRING_ERR_SYSTEM);
}

void wring_auth_serve(struct wring_auth *auth, uint16_t purpose)
{
    assert(!auth->initiator && purpose < 32);
    auth->also |= UINT32_C(1) << purpose;
}

uint16_t wring_auth_purpose(const struct wring_auth *auth)
{
    return auth->initiator ? auth->purpose : auth->peer_purpose;
}

const uint8_t *wring_auth_nonce(const struct wring_auth *auth)
{
    return auth->transcript + SECOND_NONCE_AT;
}

size_t wring_auth_output(struct wring_auth *auth, const void **data)
{
    *data = auth->transcript + auth->at;
    return is_own_message(auth) ? auth->end - auth->at : 0;
}

void wring_auth_sent(struct wring_auth *auth, size_t n)
{
    if (n == 0)
        return;
    assert(is_own_message(auth) && n <= auth->end - auth->at);
    auth->at += n;
    if (auth->at < auth->end || auth->status != WRING_ERR_AGAIN)
        return;
    if (auth->message == 3)
        end_handshake(auth, WRING_OK); /* the acceptor has said its welcome */
    else
        begin_message(auth, auth->message + 1);
}

/** The acceptor has the whole first message. */
static void answer_first(struct wring_auth *auth)
{
    uint8_t *second = auth->transcript + SECOND_AT;
    if (auth->transcript[HELLO_SIZE_AT] > WRING_HELLO_MAX ||
        memcmp(auth->transcript + HELLO_SIZE_AT + 1, "\0\0\0", 3) != 0) {
        abandon_handshake(auth, WRING_ERR_FRAME);
        return;
    }
    put_prefix(second, VERDICT_GO_ON);
    if (!wring_random_bytes(auth->transcript + SECOND_NONCE_AT, WRING_AUTH_NONCE_BYTES) ||
        !make_acceptor_proof(auth, auth->transcript + SECOND_MAC_AT)) {
        abandon_handshake(auth, WRING_ERR_SYSTEM);
        return;
    }
    begin_message(auth, 1);
}

/** The initiator has the whole second message. */
static void answer_second(struct wring_auth *auth)
{
    uint8_t want[WRING_AUTH_MAC_BYTES];
    if (!make_acceptor_proof(auth, want)) {
        abandon_handshake(auth, WRING_ERR_SYSTEM);
        return;
    }
    if (CRYPTO_memcmp(want, auth->transcript + SECOND_MAC_AT, sizeof(want)) != 0) {
        end_with_last_words(auth, WRING_ERR_AUTH,
                            WRING_AUTH_MAC_BYTES); /* zeros, which prove nothing */
        return;
    }
    if (!make_initiator_proof(auth, auth->transcript + THIRD_AT)) {
        abandon_handshake(auth, WRING_ERR_SYSTEM);
        return;
    }
    begin_message(auth, 2);
}

/** The acceptor has the initiator's proof. */
static void answer_third(struct wring_auth *auth)
{
    uint8_t want[WRING_AUTH_MAC_BYTES];
    if (!make_initiator_proof(auth, want)) {
        abandon_handshake(auth, WRING_ERR_SYSTEM);
        return;
    }
    if (CRYPTO_memcmp(want, auth->transcript + THIRD_AT, sizeof(want)) != 0) {
        auth->transcript[FOURTH_AT] = OUTCOME_WRONG_KEY;
        end_with_last_words(auth, WRING_ERR_AUTH, 1);
        return;
    }
    auth->transcript[FOURTH_AT] = OUTCOME_WELCOME;
    begin_message(auth, 3);
}

/** The initiator has the last byte. */
static void read_outcome(struct wring_auth *auth)
{
    switch (auth->transcript[FOURTH_AT]) {
    case OUTCOME_WELCOME:
        end_handshake(auth, WRING_OK);
        return;
    case OUTCOME_WRONG_KEY:
        end_handshake(auth, WRING_ERR_AUTH);
        return;
    default:
        end_handshake(auth, WRING_ERR_FRAME);
        return;
    }
}

/** Does the acceptor serve what the peer wants? */
static bool is_served(const struct wring_auth *auth)
{
    return auth->peer_purpose == auth->purpose ||
           (auth->peer_purpose < 32 && (auth->also >> auth->peer_purpose & 1) != 0);
}

static void judge_first_prefix(struct wring_auth *auth, const uint8_t *prefix)
{
    auth->peer_version = get_u16(prefix + 4);
    auth->peer_purpose = get_u16(prefix + 6);
    if (auth->peer_version != WRING_WIRE_VERSION) {
        put_prefix(auth->transcript + SECOND_AT, VERDICT_VERSION);
        end_with_last_words(auth, WRING_ERR_VERSION, PREFIX_BYTES);
    } else if (!is_served(auth)) {
        put_prefix(auth->transcript + SECOND_AT, VERDICT_PURPOSE);
        end_with_last_words(auth, WRING_ERR_FRAME, PREFIX_BYTES);
    }
}

static void judge_second_prefix(struct wring_auth *auth, const uint8_t *prefix)
{
    unsigned verdict = get_u16(prefix + 6);
    auth->peer_version = get_u16(prefix + 4);
    if (auth->peer_version != WRING_WIRE_VERSION || verdict == VERDICT_VERSION)
        abandon_handshake(auth, WRING_ERR_VERSION);
    else if (verdict != VERDICT_GO_ON)
        abandon_handshake(auth, WRING_ERR_FRAME);
}

/** Judge the opening of the first two messages as early as it can be judged. */
static void judge_prefix(struct wring_auth *auth)
{
    const uint8_t *prefix = auth->transcript + auth->start;
    size_t have = auth->at - auth->start;

    if (memcmp(prefix, MAGIC, have < 4 ? have : 4) != 0)
        abandon_handshake(auth, WRING_ERR_FRAME);
    else if (have >= PREFIX_BYTES && auth->message == 0)
        judge_first_prefix(auth, prefix);
    else if (have >= PREFIX_BYTES)
        judge_second_prefix(auth, prefix);
}

size_t wring_auth_wants(const struct wring_auth *auth)
{
    return auth->status == WRING_ERR_AGAIN && !is_own_message(auth) ? auth->end - auth->at : 0;
}

size_t wring_auth_input(struct wring_auth *auth, const void *data, size_t n)
{
    static void (*const answers[])(struct wring_auth *) = {answer_first, answer_second,
                                                           answer_third, read_outcome};
    size_t take = wring_auth_wants(auth);
    if (take > n)
        take = n;
    if (take == 0)
        return 0;

    memcpy(auth->transcript + auth->at, data, take);
    auth->at += take;
    if (auth->message <= 1)
        judge_prefix(auth);
    if (auth->status == WRING_ERR_AGAIN && auth->at == auth->end)
        answers[auth->message](auth);
    return take;
}

enum wring_status wring_auth_status(const struct wring_auth *auth)
{
    return auth->status;
}

bool wring_auth_is_proven(const struct wring_auth *auth)
{
    return auth->initiator && auth->message >= 2 &&
           (auth->status == WRING_ERR_AGAIN || auth->status == WRING_OK);
}

bool wring_auth_has_heard(const struct wring_auth *auth)
{
    unsigned first = auth->initiator ? 1 : 0; /* the peer's first message */
    return auth->message > first || (auth->message == first && auth->at > auth->start);
}

const void *wring_auth_hello(const struct wring_auth *auth, size_t *bytes)
{
    *bytes = auth->transcript[HELLO_SIZE_AT];
    return auth->transcript + HELLO_AT;
}

void wring_auth_describe(const struct wring_auth *auth, char *text, size_t bytes)
{
    switch (auth->status) {
    case WRING_OK:
        snprintf(text, bytes, "both sides know the job's key");
        return;
    case WRING_ERR_AGAIN:
        snprintf(text, bytes, "the peer has not finished its handshake");
        return;
    case WRING_ERR_AUTH:
        snprintf(text, bytes, "the peer does not have this job's key");
        return;
    case WRING_ERR_VERSION:
        snprintf(text, bytes, "the peer speaks wire version %u, this side version %d",
                 auth->peer_version, WRING_WIRE_VERSION);
        return;
    case WRING_ERR_FRAME:
        if (auth->initiator && get_u16(auth->transcript + SECOND_AT + 6) == VERDICT_PURPOSE)
            snprintf(text, bytes, "the peer's port is not of kind %u", auth->purpose);
        else if (auth->peer_purpose != 0 && !is_served(auth))
            snprintf(text, bytes, "the peer wants a port of kind %u, this one is of kind %u",
                     auth->peer_purpose, auth->purpose);
        else
            snprintf(text, bytes, "what is on the other end does not speak this protocol");
        return;
    default:
        snprintf(text, bytes, "no random numbers or no HMAC-SHA256 on this side");
        return;
    }
}
