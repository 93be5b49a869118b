/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/program_run.h"

#include <signal.h>
#include <stdlib.h>

#include "tests/random/run.h"

static enum wring_status create_group(struct run *run, uint32_t group)
{
    uint32_t ranks[PROGRAM_RANKS], n = program_members(run->p, group, ranks);

    if (!run_is_mine(run, group))
        return WRING_OK;
    return run_note(run,
                    wring_group_create(wring_session_world(run->session), ranks, n, group,
                                       WRING_FOREVER, &run->groups[group]),
                    "create group", NULL);
}

static enum wring_status register_bucket(struct run *run, uint32_t index)
{
    const struct program_bucket *b = &run->p->buckets[index];
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;

    if (!run_is_mine(run, b->group))
        return WRING_OK;
    run->data[index] = run_get_memory(run, b->memory, b->elems * wring_dtype_bytes(b->dtype));
    if (run->data[index] == NULL)
        return run_note(run, WRING_ERR_NO_MEMORY, "memory of a bucket", NULL);
    params.name = b->name;
    params.data = run->data[index];
    params.elems = b->elems;
    params.dtype = b->dtype;
    params.op = b->op;
    params.codec = b->codec;
    params.scheme = b->scheme;
    params.priority = b->priority;
    params.group = b->group == 0 ? NULL : run->groups[b->group];
    return run_note(run, wring_bucket_register(run->session, &params, &run->buckets[index]),
                    "register", NULL);
}

static enum wring_status drop_bucket(struct run *run, uint32_t index)
{
    if (run->buckets[index] == NULL)
        return WRING_OK;
    enum wring_status status = wring_bucket_drop(run->buckets[index]);
    run->buckets[index] = NULL;
    return run_note(run, status, "drop", NULL);
}

/** After it the data of buckets that were dropped may go. */
static enum wring_status commit(struct run *run)
{
    enum wring_status status = run_note(run, wring_session_commit(run->session), "commit", NULL);
    for (uint32_t b = 0; b < run->p->n_buckets && status == WRING_OK; b++)
        if (run->buckets[b] == NULL && run->data[b] != NULL) {
            run_put_memory(run, run->p->buckets[b].memory, run->data[b]);
            run->data[b] = NULL;
        }
    return status;
}

static enum wring_status save_state(struct run *run)
{
    enum wring_status status = wring_session_save_state(run->session, NULL, &run->state_bytes);
    if (status != WRING_OK)
        return run_note(run, status, "size of state", NULL);
    free(run->state);
    run->state = malloc(run->state_bytes + 1);
    if (run->state == NULL)
        return run_note(run, WRING_ERR_NO_MEMORY, "memory of a state", NULL);
    return run_note(run, wring_session_save_state(run->session, run->state, &run->state_bytes),
                    "save state", NULL);
}

static enum wring_status run_op(struct run *run, const struct program_op *op)
{
    switch (op->kind) {
    case PROGRAM_CREATE:
        return create_group(run, op->index);
    case PROGRAM_DESTROY:
        wring_group_destroy(run->groups[op->index]);
        run->groups[op->index] = NULL;
        return WRING_OK;
    case PROGRAM_REGISTER:
        return register_bucket(run, op->index);
    case PROGRAM_DROP:
        return drop_bucket(run, op->index);
    case PROGRAM_COMMIT:
        return commit(run);
    case PROGRAM_PHASE:
        return run_phase(run, &op->phase);
    case PROGRAM_SAVE:
        return save_state(run);
    case PROGRAM_LOAD:
        return run_note(run, wring_session_load_state(run->session, run->state, run->state_bytes),
                        "load state", NULL);
    }
    return WRING_OK;
}

static void die_if_it_is_time(const struct run *run)
{
    if (run->p->killed == (int32_t)run->rank && run->p->killed_at == run->op)
        raise(SIGKILL);
}

enum wring_status run_program(struct wring_session *session, const struct results *results,
                              char *why, struct run_memory **kept)
{
    struct run run = {.session = session,
                      .p = results->p,
                      .results = results,
                      .rank = wring_session_rank(session),
                      .why = why};
    enum wring_status status = WRING_OK;

    run.random = run.p->seed * 7919 + run.rank;
    why[0] = '\0';
    for (; run.op < run.p->n_ops && status == WRING_OK; run.op++) {
        die_if_it_is_time(&run);
        status = run_op(&run, &run.p->ops[run.op]);
    }
    free(run.state);
    *kept = run.kept;
    return status;
}

void run_settings(const struct program *p, uint32_t rank, char *node, const char **list)
{
    uint32_t n = 0;

    snprintf(node, 32, "WRING_NODE=%u", p->node[rank]);
    list[n++] = node;
    for (uint32_t i = 0; i < p->n_settings; i++)
        list[n++] = p->settings[i];
    list[n] = NULL;
}
