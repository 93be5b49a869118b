/* SPDX-License-Identifier: Apache-2.0 */
/* What members say of groups that are aborted and of messages that are given up, said wrongly: it
 * changes nothing, or ends the job with one line that names who said it. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "transport/fabric_connect.h"
#include "transport/message/inside.h"
#include "transport/pairs.h"

#define RANKS 3
#define WAIT_NS (60 * WRING_NS_PER_S)
#define KEY_BYTES ((uint32_t)sizeof(((struct wring_group_key *)NULL)->bytes))
#define PUTS_BYTES ((uint32_t)sizeof(uint64_t))

/** Of a group of ranks 0 and 1, to rank 0. */
struct word {
    const char *name;
    uint32_t sender;
    const char *wrong; /* what rank 0 says of it; NULL: it changes nothing */
    bool is_record;    /* of the ring of messages, else a control message */

    uint32_t c, bytes; /* of a control message; */
    uint64_t later;    /* than the group's generation; UINT64_MAX: generation 0 */
    bool other_key;    /* than the group's */

    enum wring_record_kind kind; /* of a record */
    uint32_t id;
    uint64_t tag;
};

static const char malformed[] = "sent a malformed word of a group that it aborted";

static const struct word words[] = {
    {"of no group, asking", 1, NULL, .bytes = KEY_BYTES, .other_key = true},
    {"of no group, telling", 1, NULL, .c = 1, .bytes = KEY_BYTES + PUTS_BYTES, .other_key = true},
    {"of another generation", 1, NULL, .bytes = KEY_BYTES, .later = 1},
    {"too short", 1, malformed, .bytes = KEY_BYTES - 1},
    {"too long", 1, malformed, .bytes = KEY_BYTES + 1},
    {"without the number of puts", 1, malformed, .c = 1, .bytes = KEY_BYTES},
    {"of generation 0", 1, malformed, .bytes = KEY_BYTES, .later = UINT64_MAX},
    {"by a rank that there is not", 1, malformed, .c = RANKS + 1, .bytes = KEY_BYTES + PUTS_BYTES},
    {"by the last of all ranks", 1, malformed, .c = UINT32_MAX, .bytes = KEY_BYTES + PUTS_BYTES},
    {"of one who is no member", 2, malformed, .bytes = KEY_BYTES},
    {"withdraws nothing", 1, NULL, true, .kind = WRING_RECORD_WITHDRAW, .id = 77, .tag = 5},
    {"withdraws message 0", 1, NULL, true, .kind = WRING_RECORD_WITHDRAW},
    {"recalls nothing", 1, NULL, true, .kind = WRING_RECORD_RECALL, .id = UINT32_MAX},
    {"recalls message 0", 1, NULL, true, .kind = WRING_RECORD_RECALL},
    {"has stopped nothing", 1, "sent word of puts that it was not asked to stop", true,
     .kind = WRING_RECORD_STOPPED, .id = 1, .tag = 5},
    {"has stopped message 0", 1, "sent word of puts that it was not asked to stop", true,
     .kind = WRING_RECORD_STOPPED},
    {"ends nothing", 1, "sent word of a message that it was not offered", true,
     .kind = WRING_RECORD_DONE, .id = 1 << 20 | 1, .tag = WRING_ERR_CANCELLED},
};

static void say_control(const struct word *word, struct wring_session *session,
                        const struct wring_group_key *key, uint64_t generation)
{
    struct wring_control control = {
        .kind = WRING_CONTROL_CEASE, .c = word->c, .bytes = word->bytes};
    uint64_t said = word->later == UINT64_MAX ? 0 : generation + word->later;

    control.a = (uint32_t)said;
    control.b = (uint32_t)(said >> 32);
    memcpy(control.body, key->bytes, KEY_BYTES);
    control.body[0] ^= word->other_key ? 1 : 0;
    enum wring_status status =
        wring_control_deliver(session->fabric, wring_fabric_peer(session->fabric, 0), &control);
    CHECK(status == WRING_OK, "%s: %s", word->name, wring_status_text(status));
}

static void say(const struct word *word, struct wring_session *session,
                const struct wring_group_key *key, uint64_t generation)
{
    wring_progress_lock(session->progress);
    if (word->is_record)
        wring_message_peer_say(
            wring_message_peer_find(session->messenger, 0),
            &(struct wring_message_say){.kind = word->kind, .id = word->id, .tag = word->tag});
    else
        say_control(word, session, key, generation);
    wring_progress_unlock(session->progress);
}

/** All ranks are connected, their rings as well. */
static void connect_all(struct wring_session *session, uint32_t rank)
{
    struct wring_group *world = wring_session_world(session);
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    for (uint32_t i = 1; i < RANKS; i++) {
        enum wring_status status = WRING_OK;
        if (rank == 0)
            status = wring_recv(world, NULL, 0, i, 1, NULL, NULL);
        else if (rank == i)
            status = wring_send(world, NULL, 0, 0, 1, NULL, NULL);
        CHECK(status == WRING_OK, "message of rank %u: %s", i, wring_status_text(status));
    }
}

struct story {
    const struct word *word;
    pthread_barrier_t ready; /* nobody is under way when the job ends */
    struct wring_group_key
        key; /* of the group, as rank 0 has it; read by others once all are ready */
    uint64_t generation;
};

static void run(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    const struct word *word = story->word;
    struct wring_group *world = wring_session_world(session), *group = NULL;
    const uint32_t two[] = {0, 1};

    if (rank < 2)
        CHECK(wring_group_create(world, two, 2, 5, WAIT_NS, &group) == WRING_OK, "group");
    if (rank < 2)
        CHECK(wring_barrier(group, NULL, NULL) == WRING_OK, "barrier");
    if (rank == 0) {
        story->key = group->pairs.key;
        story->generation = group->pairs.generation;
    }
    connect_all(session, rank);
    pthread_barrier_wait(&story->ready);
    if (rank == word->sender)
        say(word, session, &story->key, story->generation);
    if (word->wrong == NULL) { /* messages come behind it, one way or the other */
        connect_all(session, rank);
        if (rank < 2)
            CHECK(wring_barrier(group, NULL, NULL) == WRING_OK, "%s: the group", word->name);
        return;
    }
    struct wring_request *request;
    enum wring_status status = wring_recv(world, NULL, 0, WRING_ANY_SOURCE, 9, NULL, &request);
    if (status == WRING_OK) /* of what nobody sends */
        status = wring_request_wait(request, WAIT_NS, NULL);
    if (rank == 0)
        CHECK(status == WRING_ERR_FRAME, "%s: %s", word->name, wring_status_text(status));
    struct wring_error_detail error = WRING_ERROR_DETAIL_INIT;
    wring_session_error(session, &error);
    char who[32];
    snprintf(who, sizeof(who), "rank %u ", word->sender);
    if (rank == 0)
        CHECK(strstr(error.text, who) == error.text && strstr(error.text, word->wrong) != NULL &&
                  error.rank == (int32_t)word->sender,
              "%s: %s", word->name, error.text);
}

static void drop(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg;
    (void)level;
    (void)module;
    (void)text;
}

static void run_all(const char *provider)
{
    const char *settings[] = {provider, NULL};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        unsigned before = wring_test_failures();
        struct story story = {.word = &words[i]};
        const struct wring_test_job job = {
            .ranks = RANKS, .settings = settings, .run = run, .arg = &story, .log = drop};
        pthread_barrier_init(&story.ready, NULL, RANKS);
        wring_test_run_ranks(&job);
        pthread_barrier_destroy(&story.ready);
        CHECK(wring_test_failures() == before, "... %s, %s", words[i].name, provider);
    }
}

static void mapped(void)
{
    run_all("WRING_PROVIDER=shm");
}

static void framed(void)
{
    run_all("WRING_PROVIDER=tcp");
}

static const struct wring_test_case cases[] = {
    {"mapped", mapped},
    {"framed", framed},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
