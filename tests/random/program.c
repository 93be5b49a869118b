/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/program.h"

#include <inttypes.h>

#include "base/fpenv.h"

uint32_t program_members(const struct program *p, uint32_t group, uint32_t *ranks)
{
    uint32_t n = 0;
    for (uint32_t rank = 0; rank < p->ranks; rank++)
        if (program_is_member(p, group, rank))
            ranks[n++] = rank;
    return n;
}

static uint64_t members_of(const struct program *p, uint32_t group)
{
    uint32_t ranks[PROGRAM_RANKS];
    return program_members(p, group, ranks);
}

uint64_t program_run_elems(const struct program_call *call, uint32_t member)
{
    bool own = call->kind == PROGRAM_REDUCE_SCATTERV || call->kind == PROGRAM_ALLGATHERV;
    return own ? call->elems * ((member * 3 + call->root) % 4) / 3 : call->elems;
}

uint64_t program_pair_elems(const struct program_call *call, uint32_t from, uint32_t to)
{
    return call->kind == PROGRAM_ALLTOALLV
               ? call->elems * ((from * 3 + to * 5 + call->root) % 4) / 3
               : call->elems;
}

uint64_t program_run_begin(const struct program_call *call, uint32_t member)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < member; i++)
        elems += program_run_elems(call, i);
    return elems;
}

uint64_t program_call_in(const struct program *p, const struct program_call *call, uint32_t member)
{
    uint32_t n = (uint32_t)members_of(p, call->group);
    uint64_t elems = 0;

    switch (call->kind) {
    case PROGRAM_REDUCE_SCATTER:
    case PROGRAM_REDUCE_SCATTERV:
        return program_run_begin(call, n);
    case PROGRAM_SCATTER:
        return member == call->root ? call->elems * n : 0;
    case PROGRAM_ALLTOALL:
    case PROGRAM_ALLTOALLV:
        for (uint32_t i = 0; i < n; i++)
            elems += program_pair_elems(call, member, i);
        return elems;
    default:
        return program_run_elems(call, member);
    }
}

uint64_t program_call_out(const struct program *p, const struct program_call *call, uint32_t member)
{
    uint32_t n = (uint32_t)members_of(p, call->group);
    uint64_t elems = 0;

    switch (call->kind) {
    case PROGRAM_ALLGATHER:
    case PROGRAM_ALLGATHERV:
        return program_run_begin(call, n);
    case PROGRAM_GATHER:
        return member == call->root ? call->elems * n : 0;
    case PROGRAM_REDUCE:
        return member == call->root ? call->elems : 0;
    case PROGRAM_ALLTOALL:
    case PROGRAM_ALLTOALLV:
        for (uint32_t i = 0; i < n; i++)
            elems += program_pair_elems(call, i, member);
        return elems;
    default:
        return program_run_elems(call, member);
    }
}

void program_fill(const struct program_phase *phase, const struct program_result *result,
                  uint32_t rank, enum wring_dtype dtype, uint64_t elems, void *data)
{
    uint64_t saved = wring_fp_enter();
    uint32_t seed = (phase->seed ^ result->item * 0x9E3779B9u) + rank * 0x85EBCA6Bu;
    wring_test_fill(dtype, data, elems, phase->values, seed | 1);
    wring_fp_leave(saved);
}

static bool sends_to_itself(const struct program_phase *phase, uint32_t group, uint32_t member)
{
    for (uint32_t i = 0; i < phase->n_messages; i++) {
        const struct program_message *m = &phase->messages[i];
        if (m->group == group && m->from == member && m->to == member)
            return true;
    }
    return false;
}

enum program_receives program_receives_of(const struct program_phase *phase,
                                          const struct program_message *message)
{
    uint32_t drawn = (phase->seed ^ (message->group * 7 + message->to) * 0x9E3779B9u) >> 16;
    enum program_receives names = (enum program_receives)(drawn % (phase->last ? 4 : 3));

    if (!sends_to_itself(phase, message->group, message->to))
        return names;
    return names == PROGRAM_ANY_SOURCE      ? PROGRAM_NAMES_BOTH
           : names == PROGRAM_NAMES_NEITHER ? PROGRAM_ANY_TAG
                                            : names;
}

double program_factor(const struct program_result *result, uint32_t member)
{
    static const double factors[] = {1, 0.5, -2, 0.1, 3, 0, 1e-3};
    return factors[(result->item + 3 * member) % (sizeof(factors) / sizeof(factors[0]))];
}

bool program_premultiplies(const struct program_call *call)
{
    return call->op == WRING_PREMUL_SUM &&
           (call->kind == PROGRAM_ALLREDUCE || call->kind == PROGRAM_REDUCE ||
            call->kind == PROGRAM_REDUCE_SCATTER || call->kind == PROGRAM_REDUCE_SCATTERV);
}

/* ---- for people ---- */

static const char *const call_names[] = {"allreduce", "reduce_scatter",  "allgather",  "alltoall",
                                         "broadcast", "barrier",         "reduce",     "gather",
                                         "scatter",   "reduce_scatterv", "allgatherv", "alltoallv"};
static const char *const memory_names[] = {"allocated", "foreign", "registered"};

static void name_call(const struct program_call *call, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s of %" PRIu64 " %s %s, %s, in group %u, root %u, %s memory",
             call_names[call->kind], call->elems, wring_dtype_name(call->dtype),
             wring_op_name(call->op), call->codec, call->group, call->root,
             memory_names[call->memory]);
}

static void name_bucket(const struct program_bucket *b, char *text, size_t bytes)
{
    snprintf(text, bytes, "bucket %s of %" PRIu64 " %s %s, %s, scheme %s, in group %u, %s memory",
             b->name, b->elems, wring_dtype_name(b->dtype), wring_op_name(b->op), b->codec,
             wring_scheme_name(b->scheme), b->group, memory_names[b->memory]);
}

static void name_message(const struct program_phase *phase, const struct program_message *m,
                         char *text, size_t bytes)
{
    static const char *const names[] = {"source and tag", "the tag", "the source", "nothing"};

    snprintf(text, bytes,
             "message of %" PRIu64 " bytes, %u to %u of group %u, tag %" PRIu64
             ", from %s to %s memory, its receive names %s",
             m->bytes, m->from, m->to, m->group, m->tag, memory_names[m->send_memory],
             memory_names[m->receive_memory], names[program_receives_of(phase, m)]);
}

void program_name_item(const struct program *p, uint32_t item, char *text, size_t bytes)
{
    snprintf(text, bytes, "item %u", item);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct program_phase *phase = &p->ops[i].phase;
        for (uint32_t b = 0; b < phase->n_buckets; b++)
            if (phase->results[b].item == item)
                name_bucket(&p->buckets[phase->buckets[b]], text, bytes);
        for (uint32_t c = 0; c < phase->n_calls; c++)
            if (phase->calls[c].result.item == item)
                name_call(&phase->calls[c], text, bytes);
        for (uint32_t m = 0; m < phase->n_messages; m++)
            if (phase->messages[m].result.item == item)
                name_message(phase, &phase->messages[m], text, bytes);
        if (phase->aborted_group != PROGRAM_NONE && phase->aborted.item == item)
            snprintf(text, bytes, "end of group %u", phase->aborted_group);
    }
}

static void print_phase(const struct program *p, const struct program_phase *phase, FILE *to)
{
    char text[256];

    fprintf(to, "phase%s, values %d\n", phase->blocking ? ", calls wait" : "", phase->values);
    for (uint32_t b = 0; b < phase->n_buckets; b++)
        fprintf(to, "         %3u post and wait for %s\n", phase->results[b].item,
                p->buckets[phase->buckets[b]].name);
    for (uint32_t c = 0; c < phase->n_calls; c++) {
        name_call(&phase->calls[c], text, sizeof(text));
        fprintf(to, "         %3u %s\n", phase->calls[c].result.item, text);
    }
    for (uint32_t m = 0; m < phase->n_messages; m++) {
        name_message(phase, &phase->messages[m], text, sizeof(text));
        fprintf(to, "         %3u %s\n", phase->messages[m].result.item, text);
    }
    if (phase->aborted_group != PROGRAM_NONE)
        fprintf(to, "         %3u rank %u %s group %u\n", phase->aborted.item, phase->aborter,
                phase->cancels ? "cancels a call of" : "aborts", phase->aborted_group);
}

static void print_group(const struct program *p, uint32_t group, FILE *to)
{
    fprintf(to, "create group %u:", group);
    for (uint32_t rank = 0; rank < p->ranks; rank++)
        if (program_is_member(p, group, rank))
            fprintf(to, " %u", rank);
    fprintf(to, "\n");
}

static void print_op(const struct program *p, const struct program_op *op, FILE *to)
{
    char text[256];

    switch (op->kind) {
    case PROGRAM_CREATE:
        print_group(p, op->index, to);
        return;
    case PROGRAM_DESTROY:
        fprintf(to, "destroy group %u\n", op->index);
        return;
    case PROGRAM_REGISTER:
        name_bucket(&p->buckets[op->index], text, sizeof(text));
        fprintf(to, "register %s\n", text);
        return;
    case PROGRAM_DROP:
        fprintf(to, "drop bucket %s\n", p->buckets[op->index].name);
        return;
    case PROGRAM_COMMIT:
        fprintf(to, "commit\n");
        return;
    case PROGRAM_PHASE:
        print_phase(p, &op->phase, to);
        return;
    case PROGRAM_SAVE:
        fprintf(to, "save state\n");
        return;
    case PROGRAM_LOAD:
        fprintf(to, "load state\n");
        return;
    }
}

void program_print(const struct program *p, FILE *to)
{
    fprintf(to, "program %" PRIu64 " of %s: %u ranks, %s, on nodes", p->seed, p->config, p->ranks,
            p->processes ? "processes" : "threads");
    for (uint32_t rank = 0; rank < p->ranks; rank++)
        fprintf(to, " %u", p->node[rank]);
    fprintf(to, "\n");
    for (uint32_t i = 0; i < p->n_settings; i++)
        fprintf(to, "    %s\n", p->settings[i]);
    if (p->killed >= 0)
        fprintf(to, "    rank %d is killed before operation %u\n", p->killed, p->killed_at);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        fprintf(to, "  %2u  ", i);
        print_op(p, &p->ops[i], to);
    }
}
