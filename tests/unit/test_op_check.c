/* SPDX-License-Identifier: Apache-2.0 */
/** Tags and statements of a group's calls, between a collective and a network that keeps all. */
#include "transport/collective/op_check.h"

#include <string.h>

#include "tests/lib/test.h"
#include "transport/collective/collective.h"
#include "transport/control.h"

#define RANKS 2
#define TAGS (1u << WRING_TAG_BITS)

/* a rank of two, and what it last sent to the other */
static struct wring_config config = {.heartbeat_ns = 1000000000};
static struct wring_log log_of_all;
static struct wring_peer peers[RANKS];
static struct wring_fabric fabric;
static struct wring_engine engine = {.fabric = &fabric};
static struct wring_channel_out outs[RANKS];
static struct wring_channel scatter, gather;
static struct wring_op_history calls;
static struct wring_collective collective;
static struct wring_control sent;
static unsigned n_sent;

static enum wring_status keep(struct wring_conn *conn, const void *data, size_t bytes)
{
    (void)conn;
    n_sent++;
    CHECK(wring_control_parse(data, bytes, &sent), "malformed");
    return WRING_OK;
}

static bool awaits_nobody(const struct wring_collective *of, uint32_t member)
{
    (void)of, (void)member;
    return false;
}

static void keep_quiet(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void open_rank(void)
{
    static const struct wring_provider_ops ops = {.name = "keeping", .send = keep};
    static struct wring_provider provider = {&ops};
    static struct wring_conn conn = {.provider = &provider};
    static const uint32_t ranks[RANKS] = {0, 1};
    static const struct wring_collective_ops waiting = {.awaits = awaits_nobody};

    log_of_all = (struct wring_log){.fn = keep_quiet};
    peers[1] =
        (struct wring_peer){.fabric = &fabric, .rank = 1, .conn = &conn, .state = WRING_PEER_READY};
    fabric = (struct wring_fabric){.config = &config,
                                   .log = &log_of_all,
                                   .size = RANKS,
                                   .peers = peers,
                                   .state = WRING_FABRIC_WORKING};
    outs[1] = (struct wring_channel_out){.peer = &peers[1], .name = {.id = 7, .generation = 3}};
    scatter = gather = (struct wring_channel){.out = outs, .tagged = true};
    calls = (struct wring_op_history){0};
    collective = (struct wring_collective){.engine = &engine,
                                           .members = {.n = RANKS, .me = 0, .ranks = ranks},
                                           .scatter = &scatter,
                                           .gather = &gather,
                                           .calls = &calls,
                                           .work.ops = &waiting};
    n_sent = 0;
}

static uint32_t begin(struct wring_op_check call)
{
    if (call.codec == NULL)
        call.codec = "none";
    collective.work.call = call;
    wring_op_check_begin(&collective);
    wring_op_check_wait(&collective, 0);
    CHECK(scatter.tag == gather.tag && scatter.tag < TAGS, "tag %u", scatter.tag);
    return scatter.tag;
}

static const struct wring_op_check some = {.kind = WRING_CALL_ALLREDUCE, .elems = 1000};

/** What collides by chance elsewhere never does here, whatever was called before. */
static void kind_type_and_operation_are_told_apart(void)
{
    for (uint64_t elems = 0; elems < 50; elems++) {
        bool seen[TAGS] = {false};
        for (int kind = WRING_CALL_ALLREDUCE; kind < WRING_CALL_KINDS; kind++)
            for (int dtype = 0; dtype < WRING_DTYPES; dtype++)
                for (int op = 0;
                     op < (wring_call_reduces((enum wring_call_kind)kind) ? WRING_OPS : 1); op++) {
                    open_rank();
                    begin(some);
                    uint32_t tag = begin((struct wring_op_check){.kind = (enum wring_call_kind)kind,
                                                                 .dtype = (enum wring_dtype)dtype,
                                                                 .op = (enum wring_op)op,
                                                                 .elems = elems});
                    CHECK(!seen[tag], "kind %d, type %d, op %d", kind, dtype, op);
                    seen[tag] = true;
                }
    }
}

/** Counts, roots, codecs and what went before spread over all tags. */
static void the_rest_is_told_apart_nearly_always(void)
{
    static const char *const codecs[] = {"none", "bf16", "fp16", "int8:block=64", "int8:block=65"};
    unsigned same = 0, n = 0, counts[TAGS] = {0};
    for (unsigned i = 0; i < 20000; i++, n++) {
        open_rank();
        if (i % 2 == 1)
            begin(some);
        counts[begin((struct wring_op_check){.kind = WRING_CALL_BROADCAST,
                                             .elems = i / 2 % 100,
                                             .root = i / 200 % 20,
                                             .codec = codecs[i / 4000]})]++;
    }
    for (unsigned t = 0; t < TAGS; t++)
        same += counts[t] > 3 * n / TAGS;
    CHECK(same == 0, "%u tags are taken far too often", same);
}

/** The example of WIRE.md. */
static void a_tag_is_this(void)
{
    open_rank();
    uint32_t tag = begin(some);
    CHECK(tag == 0x192 && calls.history == 0x1911d7bacedb1340u, "tag 0x%x, history 0x%llx", tag,
          (unsigned long long)calls.history);
}

static void hear(uint32_t number, const char *text)
{
    wring_op_check_heard(&collective, 1, number, text);
}

/** What a rank that has made these calls states. */
static struct wring_control statement_of(const struct wring_op_check *made, unsigned n)
{
    open_rank();
    for (unsigned i = 0; i < n; i++)
        begin(made[i]);
    wring_op_check_look(&collective, 2 * config.heartbeat_ns);
    CHECK(n_sent == 1 && sent.kind == WRING_CONTROL_CALL && sent.a == 7 && sent.b == 3 &&
              sent.c == n - 1,
          "kind %d about %u", sent.kind, sent.c);
    return sent;
}

static void expect(const char *part, int32_t rank)
{
    struct wring_failure failure = {.text = ""};
    wring_fabric_failure(&fabric, &failure);
    CHECK(part == NULL ? failure.status == WRING_OK
                       : strstr(failure.text, part) != NULL && failure.rank == rank,
          "'%s' of %d, not '%s'", failure.text, failure.rank, part != NULL ? part : "");
}

static void statements_are_compared(void)
{
    static const struct wring_op_check other = {.kind = WRING_CALL_ALLREDUCE, .elems = 1200};
    const struct wring_op_check both[] = {some, some}, late[] = {some, other},
                                early[] = {other, some};

    struct wring_control right = statement_of(both, 2);
    hear(1, right.text);
    expect(NULL, -1);
    hear(1, statement_of(late, 2).text); /* the rank itself is the last one opened */
    expect(NULL, -1);
    hear(1, right.text);
    expect("rank 1 calls allreduce of 1000 f32, sum; rank 0 allreduce of 1200 f32, sum: ", -1);
    statement_of(early, 2);
    hear(1, right.text);
    expect("ranks 1 and 0 made different calls in a group before this one: allreduce of 1000", -1);
    statement_of(both, 2);
    hear(1, "no statement");
    expect("rank 1 sent a malformed statement", 1);
}

static void who_is_ahead_hears_where_we_are(void)
{
    const struct wring_op_check both[] = {some, some};
    statement_of(both, 2);
    n_sent = 0;
    hear(2, "0123456789abcdef|barrier");
    CHECK(n_sent == 1 && sent.c == 1, "%u statements, about %u", n_sent, sent.c);
    expect(NULL, -1);

    open_rank();
    hear(0, "0123456789abcdef|barrier"); /* we have made no call yet */
    CHECK(n_sent == 0, "what is there to say?");
    for (unsigned i = 0; i < WRING_OP_HISTORY_KEPT + 1; i++)
        begin(some);
    hear(0, "0123456789abcdef|barrier"); /* long forgotten */
    CHECK(n_sent == 0, "%u statements", n_sent);
    expect(NULL, -1);
    hear(1, "0123456789abcdef|barrier");
    expect("barrier", -1);
}

static void who_gets_on_says_nothing(void)
{
    open_rank();
    begin(some);
    wring_op_check_look(&collective, 0);
    wring_op_check_look(&collective, config.heartbeat_ns / 2);
    CHECK(n_sent == 0, "%u statements", n_sent);
    for (unsigned tenth = 0; tenth < 40; tenth++)
        wring_op_check_look(&collective, config.heartbeat_ns / 10 * tenth);
    CHECK(n_sent >= 2 && n_sent <= 4, "%u statements in four times the pause", n_sent);
}

/** Lengths of runs are told apart like everything else, also where their sum is the same. */
static void runs_are_told_apart(void)
{
    static const uint64_t lists[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {6, 0, 0}, {0, 6, 0}};
    uint64_t histories[5];
    for (unsigned i = 0; i < 5; i++) {
        open_rank();
        begin((struct wring_op_check){
            .kind = WRING_CALL_ALLGATHERV, .elems = 6, .runs = wring_call_runs(lists[i], 3)});
        histories[i] = calls.history;
        for (unsigned k = 0; k < i; k++)
            CHECK(histories[i] != histories[k], "lists %u and %u", k, i);
    }
    CHECK(wring_call_runs(lists[0], 3) == 0x973638d3ce0f3ad5u, "0x%llx",
          (unsigned long long)wring_call_runs(lists[0], 3));
}

/** Statements that nobody makes: the job ends, or they change nothing. */
static void noise_is_no_danger(void)
{
    static const char letters[] = "0123456789abcdef||| ,allreduce of";
    uint32_t random = 4711;
    for (unsigned turn = 0; turn < 5000; turn++) {
        char text[WRING_SEND_MAX - 16 + 1] = "";
        size_t bytes = wring_test_random(&random) % sizeof(text);
        for (size_t i = 0; i < bytes; i++)
            text[i] = letters[wring_test_random(&random) % (sizeof(letters) - 1)];
        open_rank();
        for (unsigned i = turn % 70; i > 0; i--)
            begin(some);
        uint64_t history = calls.history;
        uint32_t number = wring_test_random(&random);
        hear(turn % 2 == 0 ? number % 80 : number, text);
        CHECK(calls.begun == turn % 70 && calls.history == history && n_sent <= 2, "turn %u", turn);
    }
}

static void descriptions(void)
{
    char text[WRING_CALL_TEXT], codec[WRING_CODEC_SPEC_MAX];
    wring_call_describe(&(struct wring_op_check){.kind = WRING_CALL_BARRIER, .codec = "none"},
                        text);
    CHECK(strcmp(text, "barrier") == 0, "%s", text);
    wring_call_describe(
        &(struct wring_op_check){.kind = WRING_CALL_REDUCE, .elems = 7, .root = 3, .codec = "bf16"},
        text);
    CHECK(strcmp(text, "reduce of 7 f32 to member 3, sum, bf16") == 0, "%s", text);
    wring_call_describe(
        &(struct wring_op_check){
            .kind = WRING_CALL_ALLGATHERV, .elems = 7, .runs = 0x123456789abcu, .codec = "none"},
        text);
    CHECK(strcmp(text, "allgatherv of 7 f32 in runs #56789abc") == 0, "%s", text);
    wring_call_describe(&(struct wring_op_check){.kind = WRING_CALL_ALLTOALLV, .codec = "none"},
                        text);
    CHECK(strcmp(text, "alltoallv of f32") == 0, "%s", text);
    memset(codec, 'x', sizeof(codec) - 1);
    codec[sizeof(codec) - 1] = '\0';
    struct wring_op_check longest = {.kind = WRING_CALL_REDUCE_SCATTERV,
                                     .dtype = WRING_BF16,
                                     .op = WRING_AVG,
                                     .elems = UINT64_MAX,
                                     .runs = UINT64_MAX,
                                     .codec = codec};
    wring_call_describe(&longest, text);
    CHECK(strlen(text) == WRING_CALL_TEXT - 1, "%zu", strlen(text));
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"kind_type_and_operation_are_told_apart", kind_type_and_operation_are_told_apart},
        {"the_rest_is_told_apart_nearly_always", the_rest_is_told_apart_nearly_always},
        {"a_tag_is_this", a_tag_is_this},
        {"statements_are_compared", statements_are_compared},
        {"who_is_ahead_hears_where_we_are", who_is_ahead_hears_where_we_are},
        {"who_gets_on_says_nothing", who_gets_on_says_nothing},
        {"runs_are_told_apart", runs_are_told_apart},
        {"noise_is_no_danger", noise_is_no_danger},
        {"descriptions", descriptions},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
