/* SPDX-License-Identifier: Apache-2.0 */
/* What the rendezvous makes of bytes and texts, good and hostile; no sockets here. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "tests/lib/test.h"
#include "transport/bootstrap/rendezvous_private.h"

static const struct wring_rendezvous_frame sample = {.kind = WRING_RENDEZVOUS_FAILURE,
                                                     .sequence = 7,
                                                     .status = WRING_ERR_PEER,
                                                     .rank = 0x01020304,
                                                     .bytes = 0x1122334455667788};

static bool is_same(const struct wring_rendezvous_frame *a, const struct wring_rendezvous_frame *b)
{
    return a->kind == b->kind && a->sequence == b->sequence && a->status == b->status &&
           a->rank == b->rank && a->bytes == b->bytes;
}

/** The worked bytes of WIRE.md. */
static void frame_is_these_bytes(void)
{
    static const uint8_t want[WRING_RENDEZVOUS_FRAME_BYTES] = {
        0x57, 0x52, 0x5a, 0x56, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0,
        0,    0,    0,    0,    0, 0, 3, 2, 0, 0, 0, 0, 0, 0};
    const struct wring_rendezvous_frame frame = {
        .kind = WRING_RENDEZVOUS_RESULT, .sequence = 5, .bytes = 0x203};
    uint8_t *got = wring_test_guarded(sizeof(want));
    struct wring_rendezvous_frame back;

    wring_rendezvous_pack(&frame, got);
    CHECK(memcmp(got, want, sizeof(want)) == 0, "other bytes");
    CHECK(wring_rendezvous_parse(want, &back) && is_same(&back, &frame), "reads otherwise");
}

static void frames_travel_unchanged(void)
{
    uint8_t *bytes = wring_test_guarded(WRING_RENDEZVOUS_FRAME_BYTES);
    for (uint32_t kind = WRING_RENDEZVOUS_BLOB; kind <= WRING_RENDEZVOUS_PLANTED; kind++) {
        struct wring_rendezvous_frame frame = sample, back = {0};
        frame.kind = (enum wring_rendezvous_kind)kind;
        wring_rendezvous_pack(&frame, bytes);
        CHECK(wring_rendezvous_parse(bytes, &back) && is_same(&back, &frame), "kind %u", kind);
    }
}

static void other_bytes_are_no_frame(void)
{
    static const uint32_t kinds[] = {0, 8, 0x100, 0x01000001, 0x80000001, UINT32_MAX};
    uint8_t *bytes = wring_test_guarded(WRING_RENDEZVOUS_FRAME_BYTES);

    for (unsigned bit = 0; bit < 32; bit++) {
        struct wring_rendezvous_frame out = sample;
        wring_rendezvous_pack(&sample, bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(!wring_rendezvous_parse(bytes, &out), "bit %u of the magic is not looked at", bit);
        CHECK(is_same(&out, &sample), "bit %u: something was written", bit);
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct wring_rendezvous_frame out = sample;
        wring_rendezvous_pack(&sample, bytes);
        wring_put_u32(bytes + 4, kinds[i]);
        CHECK(!wring_rendezvous_parse(bytes, &out), "kind %#x is taken", kinds[i]);
        CHECK(is_same(&out, &sample), "kind %#x: something was written", kinds[i]);
    }
}

static void failure_is_never_success(void)
{
    struct wring_rendezvous_frame frame = sample;
    static const uint32_t unknown[] = {WRING_OK, WRING_ERR_SYSTEM + 1, 0x80000000, UINT32_MAX};

    for (uint32_t status = WRING_OK + 1; status <= WRING_ERR_SYSTEM; status++) {
        frame.status = status;
        CHECK(wring_rendezvous_failure_status(&frame) == (enum wring_status)status, "status %u",
              status);
    }
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        frame.status = unknown[i];
        CHECK(wring_rendezvous_failure_status(&frame) == WRING_ERR_PEER, "status %#x", unknown[i]);
    }
}

static void texts_cannot_forge_log_lines(void)
{
    char *text = wring_test_guarded(257);
    for (int i = 0; i < 256; i++)
        text[i] = (char)i;
    wring_rendezvous_make_printable(text, 256);
    CHECK(strlen(text) == 256, "it ends after %zu", strlen(text));
    for (int i = 0; i < 256; i++)
        CHECK(text[i] == (i >= 32 && i <= 126 ? (char)i : '?'), "byte %d became %d", i, text[i]);
    text[0] = 'x';
    wring_rendezvous_make_printable(text, 0);
    CHECK(text[0] == '\0', "an empty text does not end");
}

/** A result for three ranks: "ab", nothing, "cde". @param bytes out */
static uint8_t *make_result(size_t *bytes)
{
    static const char *const blobs[] = {"ab", "", "cde"};
    struct wring_writer writer = {0};
    for (int i = 0; i < 3; i++) {
        wring_write_u64(&writer, strlen(blobs[i]));
        wring_write(&writer, blobs[i], strlen(blobs[i]));
    }
    if (writer.failed)
        abort();
    *bytes = writer.bytes;
    return writer.data;
}

static void result_gives_each_blob(void)
{
    size_t bytes;
    uint8_t *body = make_result(&bytes);
    struct wring_blobs blobs;

    enum wring_status status = wring_rendezvous_unpack_result(3, body, bytes, &blobs);
    if (status != WRING_OK)
        free(body);
    REQUIRE(status == WRING_OK, "%s", wring_status_text(status));
    CHECK(blobs.n == 3 && blobs.offsets[0] == 0 && blobs.offsets[1] == 2 && blobs.offsets[2] == 2 &&
              blobs.offsets[3] == 5 && memcmp(blobs.storage, "abcde", 5) == 0,
          "other blobs");
    wring_blobs_finish(&blobs);
}

/** Unpack from a copy that ends at an unmapped page; what succeeds must lie inside it. */
static enum wring_status unpack_copy(uint32_t size, const uint8_t *data, size_t bytes)
{
    uint8_t *body = wring_test_guarded(bytes);
    struct wring_blobs blobs = {.n = 99};

    memcpy(body, data, bytes);
    enum wring_status status = wring_rendezvous_unpack_result(size, body, bytes, &blobs);
    if (status == WRING_OK) {
        CHECK(blobs.n == size && blobs.storage == body && blobs.offsets[0] == 0, "not these blobs");
        for (uint32_t i = 0; i < size; i++)
            CHECK(blobs.offsets[i] <= blobs.offsets[i + 1], "blob %u of %u ends too early", i,
                  size);
        CHECK(blobs.offsets[size] == bytes - size * sizeof(uint64_t), "blobs outside the body");
        free(blobs.offsets);
    } else {
        CHECK(blobs.n == 99, "written on failure");
    }
    wring_test_free_guarded();
    return status;
}

static void cut_or_padded_results_are_refused(void)
{
    size_t bytes;
    uint8_t *body = make_result(&bytes);
    uint8_t padded[64] = {0};

    memcpy(padded, body, bytes);
    CHECK(unpack_copy(3, padded, bytes) == WRING_OK, "the whole is refused");
    for (size_t n = 0; n < bytes; n++)
        CHECK(unpack_copy(3, padded, n) == WRING_ERR_FRAME, "%zu of %zu bytes are taken", n, bytes);
    for (size_t n = bytes + 1; n < sizeof(padded); n++)
        CHECK(unpack_copy(3, padded, n) == WRING_ERR_FRAME, "%zu for %zu bytes are taken", n,
              bytes);
    CHECK(unpack_copy(2, padded, bytes) == WRING_ERR_FRAME, "one blob too many is taken");
    CHECK(unpack_copy(4, padded, bytes) == WRING_ERR_FRAME, "one blob too few is taken");
    free(body);
}

static void lying_lengths_are_refused(void)
{
    static const uint64_t lies[] = {3,         8, 1u << 20, UINT32_MAX, INT64_MAX, UINT64_MAX - 7,
                                    UINT64_MAX};
    size_t bytes;
    uint8_t *body = make_result(&bytes);
    static const size_t at[] = {0, 10, 18};

    for (int where = 0; where < 3; where++)
        for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
            uint8_t changed[64];
            memcpy(changed, body, bytes);
            if (wring_get_u64(changed + at[where]) == lies[i])
                continue;
            wring_put_u64(changed + at[where], lies[i]);
            CHECK(unpack_copy(3, changed, bytes) == WRING_ERR_FRAME, "length %d is %llu", where,
                  (unsigned long long)lies[i]);
        }
    free(body);
}

/** Bytes that are small numbers often enough for some results to be good. */
static void random_results_stay_inside(void)
{
    uint32_t random = 20240607;
    unsigned good = 0;
    for (int turn = 0; turn < 20000; turn++) {
        uint8_t data[64];
        size_t bytes = wring_test_random(&random) % sizeof(data);
        for (size_t i = 0; i < bytes; i++) {
            uint32_t r = wring_test_random(&random);
            data[i] = r % 8 != 0 ? 0 : (uint8_t)(r >> 8) % 24;
        }
        good += unpack_copy(wring_test_random(&random) % 5, data, bytes) == WRING_OK;
    }
    CHECK(good > 100 && good < 20000, "%u of 20000 were good: a useless test", good);
}

static void names_of_ranks_are_cut_where_long(void)
{
    struct wring_rendezvous_names one = {0}, two = {0}, many = {0};

    wring_rendezvous_name(&one, 3);
    CHECK(strcmp(wring_rendezvous_named(&one), "rank 3") == 0 && one.first == 3, "%s", one.text);
    wring_rendezvous_name(&two, 2);
    wring_rendezvous_name(&two, UINT32_MAX);
    CHECK(strcmp(wring_rendezvous_named(&two), "ranks 2, 4294967295") == 0 && two.first == 2, "%s",
          two.text);
    for (uint32_t i = 0; i < 1000; i++)
        wring_rendezvous_name(&many, UINT32_MAX - i);
    CHECK(many.first == UINT32_MAX && many.n == 1000 &&
              strstr(wring_rendezvous_named(&many), "ranks 4294967295, 4294967294,") != NULL &&
              strstr(many.text, "4294967288 and 992 more") != NULL,
          "%s", many.text);
}

static void note(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    char *line = arg;
    (void)level, (void)module;
    snprintf(line, 256, "%s", text);
}

static void endpoints_to_meet_at_are_read(void)
{
    static const struct {
        const char *root;
        int family;
        unsigned port;
        bool loopback;
    } good[] = {
        {"127.0.0.1:5555", AF_INET, 5555, true},
        {"10.0.0.1:1", AF_INET, 1, false},
        {"[::1]:65535", AF_INET6, 65535, true},
        {"[fd00::2]:80", AF_INET6, 80, false},
        {"::1:7", AF_INET6, 7, true},
        {"[::ffff:127.0.0.1]:5", AF_INET6, 5, true},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char said[256] = "";
        const struct wring_log log = {note, said, WRING_LOG_WARN};
        struct addrinfo *found;
        bool is_name = true;
        enum wring_status status = wring_rendezvous_resolve(&log, good[i].root, &found, &is_name);
        CHECK(status == WRING_OK, "%s: %s", good[i].root, said);
        if (status != WRING_OK)
            continue;
        const struct sockaddr_in6 *address = (const struct sockaddr_in6 *)found->ai_addr;
        CHECK(found->ai_family == good[i].family && !is_name && /* the port is where v4 has it */
                  ntohs(address->sin6_port) == good[i].port &&
                  wring_rendezvous_is_loopback(found->ai_addr) == good[i].loopback,
              "%s: family %d, port %u", good[i].root, found->ai_family, ntohs(address->sin6_port));
        freeaddrinfo(found);
    }
}

static void endpoints_nobody_can_meet_at_are_refused(void)
{
    static const char *const bad[] = {
        "",      ":",           ":5",          "10.0.0.1",           "10.0.0.1:",
        "[]:5",  "10.0.0.1:0",  "10.0.0.1:-1", "10.0.0.1:65536",     "10.0.0.1:http",
        "[::1]", "10.0.0.1:5x", "10.0.0.1: 5", "10.0.0.1:4294967301"};
    char longest[400];
    memset(longest, 'h', sizeof(longest));
    memcpy(longest + sizeof(longest) - 5, ":555", 5);

    for (size_t i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
        const char *root = i < sizeof(bad) / sizeof(bad[0]) ? bad[i] : longest;
        char said[256] = "";
        const struct wring_log log = {note, said, WRING_LOG_WARN};
        struct addrinfo *found;
        bool is_name;
        enum wring_status status = wring_rendezvous_resolve(&log, root, &found, &is_name);
        CHECK(status == WRING_ERR_INVALID || status == WRING_ERR_ADDRESS, "'%s' gives %s", root,
              wring_status_text(status));
        CHECK(strstr(said, "WRING_ROOT=") != NULL, "'%s': said '%s'", root, said);
        if (status == WRING_OK)
            freeaddrinfo(found);
    }
}

static void several_endpoints_are_read_near_ones_first(void)
{
    static const struct {
        const char *root, *key;
        enum wring_status status;
        const char *want[4];
    } cases[] = {
        {"240.0.2.1:5,127.0.0.1:6", "k", WRING_OK, {"127.0.0.1:6", "240.0.2.1:5"}},
        {"240.0.2.1:5,[100::1]:6,127.0.0.1:7,127.9.9.9:8",
         "k",
         WRING_OK,
         {"127.0.0.1:7", "127.9.9.9:8", "240.0.2.1:5", "[100::1]:6"}},
        {"nosuch.invalid:5,240.0.2.1:5", "k", WRING_OK, {"240.0.2.1:5"}},
        {"240.0.2.1:5,127.0.0.1:6", "", WRING_OK, {"127.0.0.1:6"}}, /* loopback needs no key */
        {"240.0.2.1:5,240.0.2.2:5", "", WRING_ERR_AUTH, {NULL}},
        {"240.0.2.1:5", NULL, WRING_ERR_AUTH, {NULL}},
        {"nosuch.invalid:5,nosuch.invalid:6", "k", WRING_ERR_ADDRESS, {NULL}},
        {"240.0.2.1:5, 127.0.0.1:6 ,\t[::1]:7",
         "k",
         WRING_OK,
         {"127.0.0.1:6", "[::1]:7", "240.0.2.1:5"}},
        {"127.0.0.1:5,,127.0.0.1:6", "k", WRING_ERR_INVALID, {NULL}},
        {"127.0.0.1:5, ,127.0.0.1:6", "k", WRING_ERR_INVALID, {NULL}},
        {"127.0.0.1:5,", "k", WRING_ERR_INVALID, {NULL}},
        {"127.0.0.1:5,127.0.0.1", "k", WRING_ERR_INVALID, {NULL}},
        {"127.0.0.1:5,127.0.0.1:0", "k", WRING_ERR_INVALID, {NULL}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char said[256] = "", text[WRING_RENDEZVOUS_ENDPOINT_TEXT];
        const struct wring_log log = {note, said, WRING_LOG_WARN};
        const struct wring_rendezvous_params params = {
            .log = &log, .rank = 1, .root = cases[i].root, .key = cases[i].key};
        struct wring_rendezvous_endpoints endpoints;
        enum wring_status status = wring_rendezvous_find_endpoints(&params, &endpoints);
        CHECK(status == cases[i].status, "%s: %s, '%s'", cases[i].root, wring_status_text(status),
              said);
        if (status != WRING_OK) {
            CHECK(strstr(said, "WRING_ROOT=") != NULL, "%s: said '%s'", cases[i].root, said);
            continue;
        }
        for (unsigned k = 0; k < 4 && cases[i].want[k] != NULL; k++) {
            wring_rendezvous_endpoint_text(&endpoints.at[k], text);
            CHECK(k < endpoints.n && strcmp(text, cases[i].want[k]) == 0, "%s: endpoint %u is %s",
                  cases[i].root, k, text);
        }
    }
}

/** Of each kind more than there are places for. */
static void lists_without_end_stay_inside(void)
{
    char root[4000];
    size_t at = 0;
    for (int i = 0; i < 300; i++)
        at += (size_t)snprintf(root + at, sizeof(root) - at, "%s127.0.0.%d:5", i > 0 ? "," : "",
                               i % 2 == 0 ? 1 : 2);
    const struct wring_log log = {note, (char[256]){0}, WRING_LOG_WARN};
    const struct wring_rendezvous_params params = {
        .log = &log, .rank = 1, .root = root, .key = "k"};
    struct wring_rendezvous_endpoints *endpoints = wring_test_guarded(sizeof(*endpoints));
    CHECK(wring_rendezvous_find_endpoints(&params, endpoints) == WRING_OK &&
              endpoints->n == WRING_RENDEZVOUS_ENDPOINTS,
          "%u endpoints", endpoints->n);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"frame_is_these_bytes", frame_is_these_bytes},
        {"frames_travel_unchanged", frames_travel_unchanged},
        {"other_bytes_are_no_frame", other_bytes_are_no_frame},
        {"failure_is_never_success", failure_is_never_success},
        {"texts_cannot_forge_log_lines", texts_cannot_forge_log_lines},
        {"result_gives_each_blob", result_gives_each_blob},
        {"cut_or_padded_results_are_refused", cut_or_padded_results_are_refused},
        {"lying_lengths_are_refused", lying_lengths_are_refused},
        {"random_results_stay_inside", random_results_stay_inside},
        {"names_of_ranks_are_cut_where_long", names_of_ranks_are_cut_where_long},
        {"endpoints_to_meet_at_are_read", endpoints_to_meet_at_are_read},
        {"endpoints_nobody_can_meet_at_are_refused", endpoints_nobody_can_meet_at_are_refused},
        {"several_endpoints_are_read_near_ones_first", several_endpoints_are_read_near_ones_first},
        {"lists_without_end_stay_inside", lists_without_end_stay_inside},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
