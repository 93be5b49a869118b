/* SPDX-License-Identifier: Apache-2.0 */
/** Groups that form among ranks whose network delivers when it likes, in the order of each pair. */
#include "transport/formation.h"

#include <stdlib.h>

#include "base/clock.h"
#include "tests/lib/test.h"

#define RANKS 17
#define WAITING_MAX 4096
#define WAIT_NS (60 * WRING_NS_PER_S)

struct parcel {
    uint32_t from, to;
    struct wring_control control;
};

struct side {
    struct wring_fabric fabric;
    struct wring_peer peers[RANKS];
    struct wire {
        struct wring_conn conn;
        uint32_t from, to;
    } wires[RANKS];
    struct wring_formations formations;
    uint32_t given_up; /* by how many, of groups that had formed */
};

static struct side sides[RANKS];
static struct parcel parcels[WAITING_MAX];
static unsigned n_parcels, n_words;
static struct wring_config config;
static struct wring_log log_of_all;
static char last_line[512];
static uint32_t chance;
static bool full; /* now and then there is no room */

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(last_line, sizeof(last_line), "%s", text);
}

static enum wring_status post(struct wring_conn *conn, const void *data, size_t bytes)
{
    const struct wire *wire = (const struct wire *)conn;
    struct parcel *parcel = &parcels[n_parcels];

    if (full && wring_test_random(&chance) % 3 == 0)
        return WRING_ERR_AGAIN;
    if (n_parcels == WAITING_MAX)
        return WRING_ERR_AGAIN;
    *parcel = (struct parcel){.from = wire->from, .to = wire->to};
    CHECK(wring_control_parse(data, bytes, &parcel->control), "malformed");
    n_words += parcel->control.kind == WRING_CONTROL_FORM && parcel->control.a == 1;
    n_parcels++;
    return WRING_OK;
}

static void count_given_up(void *arg, struct wring_peer *peer, const struct wring_group_key *key)
{
    struct side *side = arg;
    (void)peer, (void)key;
    side->given_up++;
}

static void open_all(uint32_t seed)
{
    static const struct wring_provider_ops ops = {.name = "posting", .send = post};
    static struct wring_provider provider = {&ops};

    log_of_all = (struct wring_log){.fn = keep_line};
    chance = seed;
    n_parcels = n_words = 0;
    last_line[0] = '\0';
    for (uint32_t i = 0; i < RANKS; i++) {
        struct side *side = &sides[i];
        *side = (struct side){.fabric = {.config = &config,
                                         .log = &log_of_all,
                                         .rank = i,
                                         .size = RANKS,
                                         .peers = side->peers,
                                         .state = WRING_FABRIC_WORKING}};
        side->formations = (struct wring_formations){
            .fabric = &side->fabric, .given_up = count_given_up, .arg = side};
        for (uint32_t k = 0; k < RANKS; k++) {
            side->wires[k] = (struct wire){{.provider = &provider}, i, k};
            side->peers[k] = (struct wring_peer){.fabric = &side->fabric,
                                                 .rank = k,
                                                 .state = WRING_PEER_READY,
                                                 .conn = &side->wires[k].conn};
        }
    }
}

static void close_all(void)
{
    for (uint32_t i = 0; i < RANKS; i++)
        wring_formations_finish(&sides[i].formations);
}

/** The first one of some pair, chosen by chance. */
static void deliver_one(void)
{
    unsigned at = wring_test_random(&chance) % n_parcels;
    for (unsigned i = 0; i < at; i++)
        if (parcels[i].from == parcels[at].from && parcels[i].to == parcels[at].to)
            at = i;
    struct parcel parcel = parcels[at];
    memmove(&parcels[at], &parcels[at + 1], (n_parcels - at - 1) * sizeof(parcel));
    n_parcels--;
    struct side *side = &sides[parcel.to];
    wring_formations_heard(&side->formations, &side->peers[parcel.from], &parcel.control);
}

static void poll_all(void)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        sides[i].fabric.tick_ns = wring_now_ns();
        wring_formations_poll(&sides[i].formations);
    }
}

static void deliver_all(void)
{
    for (unsigned turns = 0; turns < 50; turns++) {
        while (n_parcels > 0)
            deliver_one();
        poll_all();
    }
}

/** A group, as each of its members makes it. */
struct made {
    uint32_t n, ranks[RANKS];
    uint64_t tag;
    struct wring_formation by[RANKS]; /* members */
};

static void plan(struct made *made, uint32_t n, uint32_t first, uint32_t stride, uint64_t tag)
{
    *made = (struct made){.n = n, .tag = tag};
    for (uint32_t i = 0; i < n; i++)
        made->ranks[i] = (first + i * stride) % RANKS;
}

static void begin(struct made *made, uint32_t member, struct wring_formation_word own,
                  uint64_t timeout_ns)
{
    struct wring_formation *formation = &made->by[member];
    *formation = (struct wring_formation){
        .members = {.n = made->n, .me = member, .ranks = made->ranks}, .tag = made->tag};
    REQUIRE(wring_group_key_make(&formation->members, made->tag, &formation->key) == WRING_OK,
            "key");
    CHECK(wring_formation_begin(&sides[made->ranks[member]].formations, formation, &own,
                                timeout_ns) == WRING_OK,
          "begin");
}

static const struct wring_formation_word usual = {.can_map = true, .first.values = {1, 2, 3, 4}};

static void check_all(const struct made *made, enum wring_status status)
{
    for (uint32_t i = 0; i < made->n; i++) {
        CHECK(atomic_load(&made->by[i].status) == (int)status, "member %u of %u: %d, not %d", i,
              made->n, atomic_load(&made->by[i].status), (int)status);
        CHECK(made->by[i].word.generation == made->by[0].word.generation,
              "member %u: generation %llu", i, (unsigned long long)made->by[i].word.generation);
    }
}

static uint32_t log2_of(uint32_t n)
{
    uint32_t log = 0;
    while ((1u << log) < n)
        log++;
    return log;
}

/** Any number of members in any order, whoever is early; each says log2 n words. */
static void members_alone_form_a_group(void)
{
    for (uint32_t n = 1; n <= RANKS; n++)
        for (uint32_t seed = 1; seed <= 6; seed++) {
            struct made made;
            open_all(seed * 77);
            full = seed % 2 == 0;
            plan(&made, n, seed, 3, seed);
            for (uint32_t i = 0; i < n; i++) {
                begin(&made, (i + seed) % n, usual, WRING_NEVER);
                while (n_parcels > 0 && wring_test_random(&chance) % 3 != 0)
                    deliver_one();
            }
            deliver_all();
            check_all(&made, WRING_OK);
            CHECK(n_words == n * log2_of(n), "%u members: %u words", n, n_words);
            CHECK(last_line[0] == '\0', "%s", last_line);
            close_all();
        }
    full = false;
}

/** Groups that overlap form side by side, and one of the same members again at once. */
static void many_form_side_by_side(void)
{
    static struct made made[40];
    open_all(5);
    for (uint32_t g = 0; g < 40; g++)
        plan(&made[g], 2 + g % 9, g, 1 + g % 4, g / 2);
    for (uint32_t member = 0; member < RANKS; member++)
        for (uint32_t g = 0; g < 40; g++)
            if (member < made[g].n)
                begin(&made[g], member, usual, WRING_NEVER);
    deliver_all();
    for (uint32_t g = 0; g < 40; g++)
        check_all(&made[g], WRING_OK);
    close_all();
}

/** A fast member makes the next one of the same key while a slow one still makes the first. */
static void the_same_again_is_another_one(void)
{
    static struct made first, second;
    for (uint32_t seed = 1; seed < 40; seed++) {
        open_all(seed);
        plan(&first, 7, 2, 2, 9);
        plan(&second, 7, 2, 2, 9);
        bool again[7] = {false};
        for (uint32_t i = 0; i < 7; i++)
            begin(&first, i, usual, WRING_NEVER);
        for (bool all = false; !all;) {
            all = true;
            for (uint32_t i = 0; i < 7; i++) {
                if (!again[i] && atomic_load(&first.by[i].status) == WRING_OK) {
                    begin(&second, i, usual, WRING_NEVER);
                    again[i] = true;
                }
                all &= again[i];
            }
            if (n_parcels > 0)
                deliver_one();
        }
        deliver_all();
        check_all(&first, WRING_OK);
        check_all(&second, WRING_OK);
        CHECK(second.by[0].word.generation > first.by[0].word.generation, "generations");
        close_all();
    }
}

/** All hear of the same two, whoever they are. */
static void settings_that_differ_are_named(void)
{
    for (uint32_t odd = 0; odd < 11; odd++) {
        struct made made;
        open_all(odd + 1);
        plan(&made, 11, 3, 5, 1);
        for (uint32_t i = 0; i < 11; i++) {
            struct wring_formation_word own = usual;
            own.first.values[2] += i == odd ? 40 : 0;
            own.can_map = i != odd;
            begin(&made, i, own, WRING_NEVER);
        }
        deliver_all();
        check_all(&made, WRING_ERR_MISMATCH);
        for (uint32_t i = 0; i < 11; i++) {
            const struct wring_formation_word *word = &made.by[i].word;
            CHECK(wring_formation_differs(&made.by[i].word) == 2 && word->first.values[2] == 3 &&
                      word->last.values[2] == 43 && word->last.rank == made.ranks[odd],
                  "odd %u, member %u", odd, i);
            CHECK(!word->can_map && word->first.rank == made.by[0].word.first.rank, "member %u", i);
        }
        close_all();
    }
}

static void who_cannot_go_on_is_named(void)
{
    for (uint32_t odd = 0; odd < 6; odd++) {
        struct made made;
        open_all(odd + 1);
        plan(&made, 6, 1, 1, 1);
        for (uint32_t i = 0; i < 6; i++) {
            struct wring_formation_word own = usual;
            own.status = i == odd ? WRING_ERR_NO_MEMORY : WRING_OK;
            begin(&made, i, own, WRING_NEVER);
        }
        deliver_all();
        check_all(&made, WRING_ERR_NO_MEMORY);
        for (uint32_t i = 0; i < 6; i++)
            CHECK(made.by[i].blamed == made.ranks[odd], "rank %u", made.by[i].blamed);
        close_all();
    }
}

/** One does not come: all name it, whomever they wait for; then it does, and all is well. */
static void who_does_not_come_is_named(void)
{
    for (uint32_t absent = 0; absent < 13; absent++) {
        struct made made, again;
        open_all(absent + 1);
        plan(&made, 13, 4, 1, 1);
        plan(&again, 13, 4, 1, 1);
        for (uint32_t i = 0; i < 13; i++)
            if (i != absent)
                begin(&made, i, usual, 1000); /* its second half begins at once */
        uint64_t until_ns = wring_deadline_in(WAIT_NS);
        for (bool all = false; !all && wring_now_ns() < until_ns;) {
            deliver_all();
            all = true;
            for (uint32_t i = 0; i < 13; i++)
                all &= i == absent || made.by[i].blamed != UINT32_MAX;
        }
        for (uint32_t i = 0; i < 13; i++) {
            if (i == absent)
                continue;
            wring_formation_give_up(&sides[made.ranks[i]].formations, &made.by[i]);
            CHECK(atomic_load(&made.by[i].status) == WRING_ERR_TIMEOUT, "status");
            CHECK(made.by[i].blamed == made.ranks[absent], "member %u blames rank %u, not %u", i,
                  made.by[i].blamed, made.ranks[absent]);
        }
        deliver_all();
        for (uint32_t i = 0; i < 13; i++) {
            CHECK(sides[made.ranks[i]].formations.early == NULL, "member %u keeps a word", i);
            begin(&again, i, usual, WRING_NEVER);
        }
        deliver_all();
        check_all(&again, WRING_OK);
        close_all();
    }
}

/** One that gives up ends it for all, also for those that would wait longer. */
static void giving_up_is_told(void)
{
    struct made made;
    open_all(3);
    plan(&made, 8, 0, 1, 1);
    for (uint32_t i = 0; i < 7; i++) /* 7 does not come */
        begin(&made, i, usual, WRING_NEVER);
    deliver_all();
    wring_formation_give_up(&sides[0].formations, &made.by[0]);
    CHECK(made.by[0].blamed == 7, "rank %u", made.by[0].blamed);
    deliver_all();
    for (uint32_t i = 0; i < 7; i++)
        CHECK(atomic_load(&made.by[i].status) == WRING_ERR_TIMEOUT && made.by[i].blamed == 7,
              "member %u: %d, blames %u", i, atomic_load(&made.by[i].status), made.by[i].blamed);
    close_all();
}

/** The same tag, other members. */
static void another_order_is_told(void)
{
    static struct made one, other;
    open_all(4);
    plan(&one, 2, 0, 1, 5);
    plan(&other, 3, 0, 1, 5);
    begin(&one, 1, usual, 1000);
    begin(&other, 0, usual, 1000); /* rank 0 says so to rank 1 */
    uint64_t until_ns = wring_deadline_in(WAIT_NS);
    while (one.by[1].blamed == UINT32_MAX && wring_now_ns() < until_ns)
        deliver_all();
    CHECK(one.by[1].blamed == 0 && one.by[1].other_members, "rank 0 makes another group");
    close_all();
}

/** A member that has the group hears that another one has given up. */
static void a_late_take_back_reaches_the_owner(void)
{
    struct made made;
    open_all(3);
    plan(&made, 2, 0, 1, 1);
    begin(&made, 0, usual, WRING_NEVER);
    begin(&made, 1, usual, WRING_NEVER);
    while (atomic_load(&made.by[0].status) == WRING_ERR_AGAIN) /* 1's word to 0, alone */
        for (unsigned i = 0; i < n_parcels; i++)
            if (parcels[i].to == 0) {
                struct parcel parcel = parcels[i];
                memmove(&parcels[i], &parcels[i + 1], (n_parcels - i - 1) * sizeof(parcel));
                n_parcels--;
                wring_formations_heard(&sides[0].formations, &sides[0].peers[1], &parcel.control);
                break;
            }
    wring_formation_give_up(&sides[1].formations, &made.by[1]);
    deliver_all();
    CHECK(sides[0].given_up == 1, "%u", sides[0].given_up);
    close_all();
}

static void two_of_a_key_at_once_are_refused(void)
{
    static struct made made;
    struct wring_formation other;
    open_all(3);
    plan(&made, 3, 0, 1, 1);
    begin(&made, 0, usual, WRING_NEVER);
    other = made.by[0];
    CHECK(wring_formation_begin(&sides[0].formations, &other, &usual, WRING_NEVER) ==
              WRING_ERR_BUSY,
          "a second one");
    close_all();
}

/** Whatever a rank says, the others end with a clean line or go on. */
static void noise_is_no_danger(void)
{
    static struct made made;
    for (uint32_t turn = 0; turn < 3000; turn++) {
        struct wring_control control = {.kind = WRING_CONTROL_FORM};
        open_all(turn + 1);
        plan(&made, 4, 0, 1, 1);
        begin(&made, 0, usual, WRING_NEVER);
        begin(&made, 3, usual, WRING_NEVER);
        if (turn % 2 == 0 && n_parcels > 0)
            control = parcels[wring_test_random(&chance) % n_parcels].control;
        control.a = wring_test_random(&chance) % 6;
        control.b = wring_test_random(&chance) % 4 + (turn % 5 == 0 ? 0xFFFFFFF0u : 0);
        if (turn % 2 != 0)
            control.bytes = wring_test_random(&chance) % (WRING_CONTROL_BODY + 1);
        for (uint32_t i = 0; i < 3 && control.bytes > 0; i++)
            control.body[wring_test_random(&chance) % control.bytes] =
                (uint8_t)wring_test_random(&chance);
        for (uint32_t i = 0; i < 2; i++)
            wring_formations_heard(&sides[0].formations, &sides[0].peers[3], &control);
        CHECK(sides[0].fabric.state == WRING_FABRIC_WORKING || last_line[0] != '\0', "no line");
        close_all();
    }
}

/** What a rank can make another one keep is bounded. */
static void words_that_are_kept_are_bounded(void)
{
    static struct made made;
    unsigned kept = 0;
    open_all(1);
    for (uint64_t tag = 0; tag <= WRING_FORMATION_EARLY + 10; tag++) {
        plan(&made, 2, 0, 1, tag);
        begin(&made, 0, usual, WRING_NEVER);
        wring_formation_give_up(&sides[0].formations, &made.by[0]);
        wring_formations_heard(&sides[1].formations, &sides[1].peers[0], &parcels[0].control);
        n_parcels = 0;
        kept += sides[1].fabric.state == WRING_FABRIC_WORKING;
    }
    CHECK(kept == WRING_FORMATION_EARLY, "%u words", kept);
    CHECK(strstr(last_line, "too many groups") != NULL, "%s", last_line);
    close_all();
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"members_alone_form_a_group", members_alone_form_a_group},
        {"many_form_side_by_side", many_form_side_by_side},
        {"the_same_again_is_another_one", the_same_again_is_another_one},
        {"settings_that_differ_are_named", settings_that_differ_are_named},
        {"who_cannot_go_on_is_named", who_cannot_go_on_is_named},
        {"who_does_not_come_is_named", who_does_not_come_is_named},
        {"giving_up_is_told", giving_up_is_told},
        {"another_order_is_told", another_order_is_told},
        {"a_late_take_back_reaches_the_owner", a_late_take_back_reaches_the_owner},
        {"two_of_a_key_at_once_are_refused", two_of_a_key_at_once_are_refused},
        {"noise_is_no_danger", noise_is_no_danger},
        {"words_that_are_kept_are_bounded", words_that_are_kept_are_bounded},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
