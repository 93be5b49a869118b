/* SPDX-License-Identifier: Apache-2.0 */
/* Matching, against a model that looks through plain arrays. */
#include "tests/lib/test.h"
#include "transport/message/match.h"

#define SOURCES 5
#define ITEMS 64
#define STEPS 20000

struct posted {
    struct wring_match_receive receive; /* first */
    unsigned order;                     /* 0: not in the model's list */
};

struct sent {
    struct wring_match_arrival arrival; /* first */
    unsigned order;
};

struct model {
    struct posted receives[ITEMS];
    struct sent arrivals[ITEMS];
    unsigned orders, services, served[SOURCES];
};

static bool fits(const struct wring_match_receive *receive, uint32_t source, uint64_t tag)
{
    return (receive->source == WRING_MATCH_ANY_SOURCE || receive->source == source) &&
           (receive->tag == WRING_MATCH_ANY_TAG || receive->tag == tag);
}

/** The first that was posted of those that fit. */
static struct posted *model_find(struct model *model, uint32_t source, uint64_t tag)
{
    struct posted *first = NULL;
    for (unsigned i = 0; i < ITEMS; i++) {
        struct posted *at = &model->receives[i];
        if (at->order != 0 && fits(&at->receive, source, tag) &&
            (first == NULL || at->order < first->order))
            first = at;
    }
    if (first != NULL && first->receive.source == WRING_MATCH_ANY_SOURCE)
        model->served[source] = ++model->services;
    return first;
}

/** The least recently served source's; of one source the first that was sent. */
static struct sent *model_take(struct model *model, const struct wring_match_receive *receive)
{
    struct sent *best = NULL;
    for (unsigned i = 0; i < ITEMS; i++) {
        struct sent *at = &model->arrivals[i];
        if (at->order == 0 || !fits(receive, at->arrival.source, at->arrival.tag))
            continue;
        uint32_t source = at->arrival.source, other = best != NULL ? best->arrival.source : 0;
        bool same = best != NULL && source == other;
        bool fairer =
            best != NULL && (model->served[source] < model->served[other] ||
                             (model->served[source] == model->served[other] && source < other));
        if (best == NULL || (same ? at->order < best->order : fairer))
            best = at;
    }
    if (best != NULL && receive->source == WRING_MATCH_ANY_SOURCE)
        model->served[best->arrival.source] = ++model->services;
    return best;
}

static void post(struct wring_match *match, struct model *model, struct posted *item,
                 uint32_t *seed)
{
    uint32_t source = wring_test_random(seed) % (SOURCES + 2);
    item->receive.source = source < SOURCES ? source : WRING_MATCH_ANY_SOURCE;
    item->receive.tag =
        wring_test_random(seed) % 4 == 0 ? WRING_MATCH_ANY_TAG : wring_test_random(seed) % 3;
    struct sent *want = model_take(model, &item->receive);
    struct wring_match_arrival *got = wring_match_post(match, &item->receive);
    CHECK(got == (want != NULL ? &want->arrival : NULL), "a receive took another message");
    if (want != NULL)
        want->order = 0;
    else
        item->order = ++model->orders;
}

static void send(struct wring_match *match, struct model *model, struct sent *item, uint32_t *seed)
{
    item->arrival.source = wring_test_random(seed) % SOURCES;
    item->arrival.tag = wring_test_random(seed) % 3;
    struct posted *want = model_find(model, item->arrival.source, item->arrival.tag);
    struct wring_match_receive *got =
        wring_match_find(match, item->arrival.source, item->arrival.tag);
    CHECK(got == (want != NULL ? &want->receive : NULL), "a message went to another receive");
    if (want != NULL) {
        want->order = 0;
        return;
    }
    wring_match_keep(match, &item->arrival);
    item->order = ++model->orders;
}

/** Of a message that was taken back: its receive is listed where it was. */
static void take_back(struct wring_match *match, struct model *model, struct posted *item)
{
    wring_match_remove(&item->receive.link);
    struct sent *want = model_take(model, &item->receive);
    CHECK(want == NULL, "a listed receive fits a listed message");
    CHECK(wring_match_post_again(match, &item->receive) == NULL, "it took a message");
}

static void as_the_model(void)
{
    static struct model model;
    struct wring_match match;
    uint32_t seed = 7;

    REQUIRE(wring_match_init(&match, SOURCES) == WRING_OK, "no memory");
    for (unsigned step = 0; step < STEPS && wring_test_failures() == 0; step++) {
        unsigned i = wring_test_random(&seed) % ITEMS;
        bool receives = wring_test_random(&seed) % 2 == 0;
        struct posted *posted = &model.receives[i];
        struct sent *sent = &model.arrivals[i];
        if (receives && posted->order == 0) {
            post(&match, &model, posted, &seed);
        } else if (!receives && sent->order == 0) {
            send(&match, &model, sent, &seed);
        } else if (receives && wring_test_random(&seed) % 2 == 0) {
            take_back(&match, &model, posted);
        } else if (receives) { /* cancelled */
            wring_match_remove(&posted->receive.link);
            posted->order = 0;
        }
    }
    wring_match_finish(&match);
}

/** Sources that always have a message: none waits for more than all others once. */
static void is_fair(void)
{
    struct wring_match match;
    struct wring_match_arrival arrivals[SOURCES][ITEMS];
    unsigned waited[SOURCES] = {0};

    REQUIRE(wring_match_init(&match, SOURCES) == WRING_OK, "no memory");
    for (uint32_t source = 0; source < SOURCES; source++)
        for (unsigned i = 0; i < ITEMS; i++) {
            arrivals[source][i].source = source;
            arrivals[source][i].tag = i;
            wring_match_keep(&match, &arrivals[source][i]);
        }
    for (unsigned i = 0; i < ITEMS; i++) {
        struct wring_match_receive receive = {.source = WRING_MATCH_ANY_SOURCE,
                                              .tag = WRING_MATCH_ANY_TAG};
        const struct wring_match_arrival *got = wring_match_post(&match, &receive);
        REQUIRE(got != NULL, "no message");
        for (uint32_t source = 0; source < SOURCES; source++)
            waited[source] = source == got->source ? 0 : waited[source] + 1;
        for (uint32_t source = 0; source < SOURCES; source++)
            CHECK(waited[source] < SOURCES, "source %u waited for %u others", source,
                  waited[source]);
    }
    wring_match_finish(&match);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"as_the_model", as_the_model}, {"is_fair", is_fair}, {0}};
    return wring_test_main(argc, argv, cases);
}
