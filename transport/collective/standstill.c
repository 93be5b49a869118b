/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/standstill.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "transport/collective/collective.h"
#include "transport/control.h"
#include "transport/pairs.h"

#define FIELDS 11
#define LINE_BYTES 512

static uint32_t step_number(const struct wring_collective *collective)
{
    return collective->calls != NULL ? (uint32_t)collective->calls->begun : collective->begun;
}

static const struct wring_channel *channel_of(const struct wring_collective *collective, int which)
{
    return which == 0 ? collective->scatter : collective->gather;
}

/* Those that we exchange something with, one after the other. */

static uint32_t first_pair(const struct wring_collective *collective)
{
    return wring_collective_next_pair(collective, 0);
}

static uint32_t next_pair(const struct wring_collective *collective, uint32_t member)
{
    return wring_collective_next_pair(collective, member + 1);
}

/* ---- what this member does ---- */

static uint64_t fold_channel(uint64_t hash, const struct wring_collective *collective,
                             const struct wring_channel *channel)
{
    for (uint32_t i = first_pair(collective); i < channel->members.n;
         i = next_pair(collective, i)) {
        const struct wring_channel_in *in = &channel->in[i];
        const struct wring_channel_out *out = &channel->out[i];
        hash = wring_fold(hash, (uint64_t)in->arrivals << 32 | in->taken);
        hash = wring_fold(hash, (uint64_t)in->consumed << 32 | in->credited);
        uint32_t limit = out->peer != NULL ? out->limit : channel->window; /* as it will be */
        hash = wring_fold(hash, (uint64_t)out->reserved << 32 | limit);
        hash = wring_fold(hash, out->puts);
    }
    return hash;
}

/** Changes whenever it does something, or something comes. */
static uint64_t hash_progress(const struct wring_collective *collective)
{
    uint64_t hash = wring_fold(step_number(collective), collective->reduced);
    uint32_t me = collective->members.me;
    hash = wring_fold(hash, collective->sent[me] << 32 ^ collective->decoded[me]);
    for (uint32_t i = first_pair(collective); i < collective->members.n;
         i = next_pair(collective, i))
        hash = wring_fold(hash, collective->sent[i] << 32 ^ collective->decoded[i]);
    for (int which = 0; which < WRING_STANDSTILL_CHANNELS; which++)
        if (channel_of(collective, which) != NULL)
            hash = fold_channel(hash, collective, channel_of(collective, which));
    return wring_fold(hash, collective->busy);
}

/** It has work of its own under way, which will come to an end without anybody else. */
static bool is_at_work(const struct wring_collective *collective)
{
    uint32_t tasks = collective->send_tasks + collective->reduce_tasks + collective->decode_tasks;
    for (int which = 0; which < WRING_STANDSTILL_CHANNELS; which++)
        if (channel_of(collective, which) != NULL && channel_of(collective, which)->owes_credits)
            return true;
    for (uint32_t i = 0; i < tasks; i++) {
        const struct wring_task *task = &collective->tasks[i];
        if (task->has_job || (task->state == WRING_TASK_SENDING &&
                              (task->puts_left > 0 || task->puts_under_way > 0)))
            return true;
    }
    return collective->runnable;
}

/** Sharded: its own sums are made, and those of others are what it lacks. */
static bool is_about_sums(const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    struct wring_span own = wring_partition_shard(partition, collective->members.me);
    return collective->reduced == wring_partition_chunks(partition, own);
}

/** The channel in which it lacks a piece. */
static const struct wring_channel *lacking_channel(const struct wring_collective *collective)
{
    const struct wring_work *work = &collective->work;
    if (work->to_root)
        return collective->scatter;
    if (wring_algorithm_has_neighbours(work->algorithm))
        return collective->scatter;
    bool scatter = wring_algorithm_has_owners(work->algorithm)
                       ? !is_about_sums(collective)
                       : work->ops == &wring_allgather_alltoall && !work->to_all;
    return scatter || collective->gather == NULL ? collective->scatter : collective->gather;
}

/** A member that has not given back what we need to go on in a channel, or members.n. */
static uint32_t find_creditor(const struct wring_collective *collective, int which)
{
    const struct wring_channel *channel = channel_of(collective, which);
    bool sums = which == 1 && wring_algorithm_has_owners(
                                  collective->work.algorithm); /* owed without being asked */
    uint32_t n = collective->members.n;

    if (channel == NULL || channel->placed || (sums && wring_collective_missing(collective) < n))
        return n;
    for (uint32_t i = first_pair(collective); i < n; i = next_pair(collective, i))
        if (!wring_channel_has_credit(channel, i) &&
            (sums || collective->work.ops->owes(collective, i)))
            return i;
    return n;
}

/** Find out what this member waits for. */
static void find_want(const struct wring_collective *collective, struct wring_statement *out)
{
    uint32_t n = collective->members.n, missing = wring_collective_missing(collective);

    for (int which = 0; which < WRING_STANDSTILL_CHANNELS; which++) {
        uint32_t creditor = find_creditor(collective, which);
        if (creditor == n)
            continue;
        out->want = WRING_WANTS_CREDIT;
        out->rank = collective->members.ranks[creditor];
        out->number = channel_of(collective, which)->out[creditor].reserved;
        return;
    }
    if (missing == n)
        return;
    out->want = WRING_WANTS_PIECE;
    out->rank = collective->members.ranks[missing];
    out->number = lacking_channel(collective)->in[missing].arrivals;
}

/* ---- statements ---- */

static struct wring_statement make_statement(const struct wring_collective *collective,
                                             uint32_t member)
{
    const struct wring_standstill *standstill = &collective->standstill;
    struct wring_statement statement = {
        .step = step_number(collective),
        .active = collective->running,
        .epoch = standstill->epoch,
        .echo = standstill->others[member].said.epoch,
        .found = standstill->found,
    };
    for (int which = 0; which < WRING_STANDSTILL_CHANNELS; which++) {
        const struct wring_channel *channel = channel_of(collective, which);
        if (channel == NULL)
            continue;
        statement.channels[which].puts = channel->out[member].puts;
        statement.channels[which].arrivals = channel->in[member].arrivals;
    }
    if (statement.active)
        find_want(collective, &statement);
    return statement;
}

static void write_statement(const struct wring_statement *s, char *text, size_t bytes)
{
    snprintf(text, bytes, "%x %x %x %x %x %x %x %x %x %x %x", s->active, s->epoch, s->echo,
             s->found, s->channels[0].puts, s->channels[0].arrivals, s->channels[1].puts,
             s->channels[1].arrivals, s->want, s->rank, s->number);
}

static bool read_statement(const char *text, struct wring_statement *s)
{
    unsigned active, want;
    int end = 0;
    int n =
        sscanf(text, "%1x %8x %8x %8x %8x %8x %8x %8x %1x %8x %8x%n", &active, &s->epoch, &s->echo,
               &s->found, &s->channels[0].puts, &s->channels[0].arrivals, &s->channels[1].puts,
               &s->channels[1].arrivals, &want, &s->rank, &s->number, &end);
    if (n != FIELDS || text[end] != '\0' || active > 1 || want > WRING_WANTS_PIECE)
        return false;
    s->active = active;
    s->want = (enum wring_standstill_want)want;
    return true;
}

/** Where there is no room, the next one will tell. */
static void try_send_statement(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_channel *channel =
        collective->scatter != NULL ? collective->scatter : collective->gather;
    const struct wring_channel_out *out = wring_channel_out(channel, member);
    if (out->name.id == WRING_NO_CHANNEL) {
        channel->pairs->want(channel->pairs, member);
        return;
    }
    struct wring_statement statement = make_statement(collective, member);
    struct wring_control control = {.kind = WRING_CONTROL_STANDSTILL,
                                    .a = out->name.id,
                                    .b = collective->bucket,
                                    .c = statement.step};
    write_statement(&statement, control.text, sizeof(control.text));
    wring_control_send(out->peer, &control);
}

/* ---- does nobody move? ---- */

/** All that one has sent has come to the other. */
static bool nothing_between(const struct wring_collective *collective, uint32_t member,
                            const struct wring_statement *theirs)
{
    for (int which = 0; which < WRING_STANDSTILL_CHANNELS; which++) {
        const struct wring_channel *channel = channel_of(collective, which);
        if (channel != NULL && (channel->out[member].puts != theirs->channels[which].arrivals ||
                                channel->in[member].arrivals != theirs->channels[which].puts))
            return false;
    }
    return true;
}

/** Has it nothing more to do in this step? */
static bool is_past(const struct wring_statement *theirs, uint32_t step)
{
    int32_t ahead = (int32_t)(theirs->step - step);
    return ahead > 0 || (ahead == 0 && !theirs->active);
}

/** As it said last. */
static bool stands_still(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_standstill *standstill = &collective->standstill;
    const struct wring_statement *theirs = &standstill->others[member].said;

    return theirs->echo == standstill->epoch &&
           (is_past(theirs, standstill->step) || theirs->step == standstill->step) &&
           nothing_between(collective, member, theirs);
}

/** All others have said where they stand since we last found what is to be found. */
static bool have_all_stated(const struct wring_collective *collective)
{
    for (uint32_t i = first_pair(collective); i < collective->members.n;
         i = next_pair(collective, i))
        if (!collective->standstill.others[i].heard)
            return false;
    return true;
}

/**
 * How often in a row nobody moved, this time included. Who is told by some members alone what they
 * have found goes no further than one beyond the least of that: word of a member that moves comes
 * from pair to pair.
 */
static uint32_t count_found(const struct wring_collective *collective)
{
    const struct wring_standstill *standstill = &collective->standstill;
    uint32_t found = standstill->found;

    if (!wring_algorithm_has_neighbours(collective->work.algorithm))
        return found + 1;
    for (uint32_t i = first_pair(collective); i < collective->members.n;
         i = next_pair(collective, i)) {
        const struct wring_statement *theirs = &standstill->others[i].said;
        if (!is_past(theirs, standstill->step) && theirs->found < found)
            found = theirs->found;
    }
    return found + 1;
}

/** Count how often in a row nobody moved. */
static void note_if_all_still(struct wring_collective *collective)
{
    struct wring_standstill *standstill = &collective->standstill;
    bool all = true;

    for (uint32_t i = first_pair(collective); i < collective->members.n;
         i = next_pair(collective, i))
        if (standstill->others[i].heard)
            all &= stands_still(collective, i);
    if (all && !have_all_stated(collective))
        return;
    standstill->found = all ? count_found(collective) : 0;
    for (uint32_t i = first_pair(collective); i < collective->members.n;
         i = next_pair(collective, i))
        if (standstill->others[i].heard)
            standstill->others[i].heard = false;
}

/** So often must all have found it: once more for each member of the longest row of members that
 *  wait for one another. None waits for one of a later exchange. */
static uint32_t confirmations(const struct wring_collective *collective)
{
    uint32_t n = collective->members.n, apart = 2;

    if (!wring_algorithm_has_neighbours(collective->work.algorithm))
        return WRING_STANDSTILL_CONFIRMATIONS;
    if (wring_algorithm_is_ring(collective->work.algorithm))
        return WRING_STANDSTILL_CONFIRMATIONS + n;
    for (; n > 1; n /= 2)
        apart++;
    return WRING_STANDSTILL_CONFIRMATIONS + apart;
}

/** Do all find the same? */
static bool have_all_found(const struct wring_collective *collective)
{
    const struct wring_standstill *standstill = &collective->standstill;

    for (uint32_t i = first_pair(collective); i < collective->members.n;
         i = next_pair(collective, i)) {
        const struct wring_statement *theirs = &standstill->others[i].said;
        if (!is_past(theirs, standstill->step) && theirs->found < WRING_STANDSTILL_CONFIRMATIONS)
            return false;
    }
    return standstill->found >= confirmations(collective);
}

/* ---- and then ---- */

/** "; rank 1 waits for piece 8 of rank 0" */
static void add_want(char *line, uint32_t rank, const struct wring_statement *s)
{
    size_t at = strlen(line);
    const char *format = s->want == WRING_WANTS_CREDIT
                             ? "; rank %" PRIu32 " has no credit for piece %" PRIu32
                               " to rank %" PRIu32
                             : "; rank %" PRIu32 " waits for piece %" PRIu32 " of rank %" PRIu32;
    if (s->want != WRING_WANTS_NOTHING)
        snprintf(line + at, LINE_BYTES - at, format, rank, s->number, s->rank);
}

/** Those that lack a credit first: they are why others lack pieces. */
static void add_wants(const struct wring_collective *collective, char *line,
                      enum wring_standstill_want want)
{
    uint32_t me = collective->members.me;

    for (uint32_t i = 0; i < collective->members.n; i++) {
        struct wring_statement own = {0};
        if (i == me)
            find_want(collective, &own);
        const struct wring_statement *s = i == me ? &own : &collective->standstill.others[i].said;
        bool concerns = i == me || wring_collective_pairs_with(collective, i);
        if (s->want == want && concerns && (i == me || !is_past(s, collective->standstill.step)))
            add_want(line, collective->members.ranks[i], s);
    }
}

static void name_step(const struct wring_collective *collective, char *line)
{
    char call[WRING_CALL_TEXT];

    if (collective->calls != NULL) {
        wring_call_describe(&collective->work.call, call);
        snprintf(line, LINE_BYTES, "%s: nobody can move, though all are alive", call);
    } else {
        snprintf(line, LINE_BYTES,
                 "bucket '%s'%s, step %" PRIu64 ": nobody can move, though all are alive",
                 collective->name, collective->whole != NULL ? " (a leg)" : "", collective->step);
    }
}

static void fail_standstill(const struct wring_collective *collective)
{
    char line[LINE_BYTES];

    name_step(collective, line);
    add_wants(collective, line, WRING_WANTS_CREDIT);
    add_wants(collective, line, WRING_WANTS_PIECE);
    wring_fabric_fail(collective->engine->fabric, WRING_ERR_PEER, -1, "%s", line);
}

/** Something was done, or a step has begun: from here on again. */
static void begin_anew(struct wring_standstill *standstill, uint32_t step, uint64_t sign)
{
    standstill->step = step;
    standstill->sign = sign;
    standstill->epoch++;
    standstill->found = 0;
}

static bool can_stand_still(const struct wring_collective *collective)
{
    return collective->standstill.others != NULL &&
           (collective->scatter != NULL || collective->gather != NULL) &&
           !wring_collective_uses_shm_flags(collective);
}

void wring_standstill_look(struct wring_collective *collective, uint64_t now_ns)
{
    struct wring_standstill *standstill = &collective->standstill;
    uint32_t step = step_number(collective);

    if (!can_stand_still(collective) || (step == standstill->step && now_ns < standstill->look_ns))
        return;
    standstill->look_ns = now_ns + collective->engine->config->heartbeat_ns;
    if (step != standstill->step) { /* nearly all steps end before anybody looks again */
        begin_anew(standstill, step, 0);
        return;
    }
    uint64_t sign = hash_progress(collective);
    if (sign != standstill->sign || is_at_work(collective)) {
        begin_anew(standstill, step, sign);
        return;
    }
    note_if_all_still(collective);
    if (have_all_found(collective)) {
        fail_standstill(collective);
        return;
    }
    for (uint32_t i = first_pair(collective); i < collective->members.n;
         i = next_pair(collective, i))
        try_send_statement(collective, i);
}

void wring_standstill_heard(struct wring_collective *collective, uint32_t member, uint32_t step,
                            const char *text)
{
    struct wring_standstill_other *other = &collective->standstill.others[member];
    struct wring_statement said = {.step = step}, own;

    if (!read_statement(text, &said)) {
        uint32_t rank = collective->members.ranks[member];
        wring_fabric_fail(collective->engine->fabric, WRING_ERR_FRAME, (int32_t)rank,
                          "rank %" PRIu32 " sent a malformed statement of where it stands", rank);
        return;
    }
    other->said = said;
    other->heard = true;
    own = make_statement(collective, member);
    if (said.active && is_past(&own, step))
        try_send_statement(collective, member);
}
