/* SPDX-License-Identifier: Apache-2.0 */
/* The table of launchers. The innermost one counts: torchrun may run within a Slurm step or below
 * mpirun, and mpirun within a step, while the outer one's variables are still there. */
#include "transport/bootstrap/launcher.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/forked.h"

#define WRING_MODULE "launcher"
#define RANKS_MAX 65536

static const char *variable(const char *name)
{
    const char *text = wring_config_foreign(name);
    return text != NULL && *text != '\0' ? text : NULL;
}

/** Decimal digits only, at most `max`. @return false where the variable is anything else */
static bool number(const char *name, uint32_t max, uint32_t *out)
{
    const char *text = variable(name);
    uint64_t value = 0;

    if (text == NULL)
        return false;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || value > max)
            return false;
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (value > max)
        return false;
    *out = (uint32_t)value;
    return true;
}

static int32_t number_or_unknown(const char *name)
{
    uint32_t value;
    return number(name, RANKS_MAX, &value) ? (int32_t)value : -1;
}

/** Rank and size from two variables; either may be missing or wrong. */
static enum wring_status read_pair(const struct wring_log *log, const char *rank, const char *size,
                                   struct wring_launched *out)
{
    const char *const names[] = {rank, size};
    uint32_t *const values[] = {&out->rank, &out->size};

    for (int i = 0; i < 2; i++)
        if (!number(names[i], RANKS_MAX, values[i])) {
            const char *text = variable(names[i]);
            wring_error(log,
                        "started by %s, but %s%s%s: set WRING_RANK, WRING_SIZE and WRING_ROOT "
                        "instead, or WRING_RANK=0 WRING_SIZE=1 for a job of one",
                        out->name, names[i], text != NULL ? " is no number: " : " is not set",
                        text != NULL ? text : "");
            return WRING_ERR_INVALID;
        }
    if (out->size < 1 || out->rank >= out->size) {
        wring_error(log, "started by %s, which says rank %" PRIu32 " (%s) of %" PRIu32 " (%s)",
                    out->name, out->rank, rank, out->size, size);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

/** A job of two or more needs the exchange: is it there? */
static enum wring_status need_exchange(const struct wring_log *log, struct wring_launched *out)
{
    char why[256];

    if (out->size == 1 || out->exchange->usable(why, sizeof(why)))
        return WRING_OK;
    wring_error(log,
                "started by %s as rank %" PRIu32 " of %" PRIu32
                ", but its %s exchange cannot be used: %s; or set WRING_RANK, WRING_SIZE, "
                "WRING_ROOT and WRING_KEY",
                out->name, out->rank, out->size, out->exchange->name, why);
    return WRING_ERR_UNSUPPORTED;
}

/* ---- torchrun, and others that set the same variables ---- */

static bool torchrun_seen(void)
{
    return variable("TORCHELASTIC_RUN_ID") != NULL;
}

/** Restarted workers have the same rank and port; the count tells them from their predecessors. */
static enum wring_status read_torch(const struct wring_log *log, struct wring_launched *out)
{
    const char *host = variable("MASTER_ADDR"), *port = variable("MASTER_PORT");
    const char *run = variable("TORCHELASTIC_RUN_ID");
    const char *restarts = variable("TORCHELASTIC_RESTART_COUNT");

    enum wring_status status = read_pair(log, "RANK", "WORLD_SIZE", out);
    if (status != WRING_OK)
        return status;
    out->local_rank = number_or_unknown("LOCAL_RANK");
    out->local_size = number_or_unknown("LOCAL_WORLD_SIZE");
    if (out->size > 1 && (host == NULL || strlen(host) >= sizeof(out->host))) {
        wring_error(log, "started by %s, but MASTER_ADDR is not set: it says where rank 0 runs",
                    out->name);
        return WRING_ERR_INVALID;
    }
    snprintf(out->host, sizeof(out->host), "%s", host != NULL ? host : "");
    snprintf(out->job, sizeof(out->job), "torch %.200s %.20s %.200s %.20s", run != NULL ? run : "",
             restarts != NULL ? restarts : "0", out->host, port != NULL ? port : "");
    return WRING_OK;
}

static bool torch_variables_seen(void)
{
    return variable("RANK") != NULL && variable("WORLD_SIZE") != NULL;
}

/* ---- Open MPI, PRRTE and others that speak PMIx ---- */

static bool open_mpi_seen(void)
{
    return variable("OMPI_COMM_WORLD_RANK") != NULL || variable("OMPI_COMM_WORLD_SIZE") != NULL;
}

static enum wring_status read_open_mpi(const struct wring_log *log, struct wring_launched *out)
{
    enum wring_status status = read_pair(log, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", out);
    if (status != WRING_OK)
        return status;
    out->local_rank = number_or_unknown("OMPI_COMM_WORLD_LOCAL_RANK");
    out->local_size = number_or_unknown("OMPI_COMM_WORLD_LOCAL_SIZE");
    out->exchange = &wring_exchange_pmix;
    return need_exchange(log, out);
}

static bool pmix_seen(void)
{
    return variable("PMIX_RANK") != NULL || variable("PMIX_NAMESPACE") != NULL;
}

/** A step on one node has all its ranks there. */
static int32_t slurm_local_size(uint32_t size)
{
    uint32_t nodes;
    return number("SLURM_STEP_NUM_NODES", RANKS_MAX, &nodes) && nodes == 1 ? (int32_t)size : -1;
}

/** No variable of PMIx has the size; Slurm's has. */
static enum wring_status read_pmix(const struct wring_log *log, struct wring_launched *out)
{
    char why[256];

    out->exchange = &wring_exchange_pmix;
    if (variable("SLURM_STEP_ID") != NULL) {
        out->name = "Slurm (PMIx)";
        enum wring_status status = read_pair(log, "PMIX_RANK", "SLURM_STEP_NUM_TASKS", out);
        out->local_rank = number_or_unknown("SLURM_LOCALID");
        out->local_size = slurm_local_size(out->size);
        return status == WRING_OK ? need_exchange(log, out) : status;
    }
    if (!number("PMIX_RANK", RANKS_MAX, &out->rank) || !out->exchange->usable(why, sizeof(why))) {
        if (variable("PMIX_RANK") == NULL)
            snprintf(why, sizeof(why), "PMIX_RANK is not set");
        wring_error(log,
                    "started by a launcher that speaks PMIx, which cannot be used: %s; or set "
                    "WRING_RANK, WRING_SIZE, WRING_ROOT and WRING_KEY",
                    why);
        return WRING_ERR_UNSUPPORTED;
    }
    return wring_pmix_job_size(log, &out->size);
}

/* ---- Hydra, Slurm's pmi2, and others that speak PMI ---- */

/** Slurm's step managers, not Hydra's, which may run within a step. */
static bool slurm_speaks_pmi(void)
{
    return variable("SLURM_STEP_ID") != NULL && variable("HYDI_CONTROL_FD") == NULL &&
           variable("HYDRA_PROXY_ID") == NULL && variable("MPI_LOCALNRANKS") == NULL;
}

/** Slurm ends a step in which two clients begin on one descriptor: an MPI library has it alone. */
static bool mpi_needs_it(void)
{
    return slurm_speaks_pmi() && dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
}

static bool pmi_seen(void)
{
    bool seen =
        variable("PMI_RANK") != NULL || variable("PMI_FD") != NULL || variable("PMI_PORT") != NULL;
    return seen && !mpi_needs_it();
}

static enum wring_status read_pmi(const struct wring_log *log, struct wring_launched *out)
{
    bool slurm = slurm_speaks_pmi();

    out->name = slurm ? "Slurm (PMI-2)" : "Hydra (PMI-1)";
    out->exchange = slurm ? &wring_exchange_pmi2 : &wring_exchange_pmi1;
    enum wring_status status = read_pair(log, "PMI_RANK", "PMI_SIZE", out);
    if (status != WRING_OK)
        return status;
    out->local_rank = number_or_unknown(slurm ? "SLURM_LOCALID" : "MPI_LOCALRANKID");
    out->local_size = slurm ? slurm_local_size(out->size) : number_or_unknown("MPI_LOCALNRANKS");
    return need_exchange(log, out);
}

/* ---- Slurm without an exchange ---- */

/** The batch script itself has SLURM_PROCID=0, too, but is no step. */
static bool slurm_seen(void)
{
    return variable("SLURM_STEP_ID") != NULL;
}

static enum wring_status read_slurm(const struct wring_log *log, struct wring_launched *out)
{
    const char *nodes = variable("SLURM_STEP_NODELIST");
    const char *job = variable("SLURM_JOB_ID"), *restarts = variable("SLURM_RESTART_COUNT");

    enum wring_status status = read_pair(log, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", out);
    if (status != WRING_OK || out->size == 1)
        return status;
    out->local_rank = number_or_unknown("SLURM_LOCALID");
    out->local_size = slurm_local_size(out->size);
    if (nodes == NULL || !wring_slurm_first_host(nodes, out->host, sizeof(out->host))) {
        wring_error(
            log,
            "started by Slurm, but SLURM_STEP_NODELIST %s%s does not say where rank 0 runs: "
            "use srun --mpi=pmi2, or set WRING_ROOT",
            nodes != NULL ? "=" : "is not set and", nodes != NULL ? nodes : "");
        return WRING_ERR_INVALID;
    }
    snprintf(out->job, sizeof(out->job), "slurm %.60s.%.60s %.20s", job != NULL ? job : "",
             variable("SLURM_STEP_ID"), restarts != NULL ? restarts : "0");
    return WRING_OK;
}

/* ---- the table ---- */

static const struct launcher {
    const char *name;
    bool (*seen)(void);
    enum wring_status (*read)(const struct wring_log *log, struct wring_launched *out);
} launchers[] = {
    {"torchrun", torchrun_seen, read_torch},
    {"Open MPI", open_mpi_seen, read_open_mpi},
    {"PMIx", pmix_seen, read_pmix},
    {"PMI", pmi_seen, read_pmi},
    {"Slurm", slurm_seen, read_slurm},
    {"RANK and WORLD_SIZE", torch_variables_seen, read_torch},
};

/** Launchers that give ranks in ways that wring does not know. */
static const struct {
    const char *variable, *name;
} unknown[] = {
    {"PALS_RANKID", "PALS"},
    {"ALPS_APP_PE", "ALPS"},
    {"FLUX_TASK_RANK", "Flux without PMI"},
    {"MV2_COMM_WORLD_RANK", "MVAPICH's mpirun_rsh"},
    {"JSM_NAMESPACE_RANK", "jsrun without PMIx"},
};

/** WRING_RANK and WRING_SIZE, which wring run and people set. */
static enum wring_status read_own(const struct wring_config *config, const struct wring_log *log,
                                  struct wring_launched *out)
{
    if (config->rank < 0 || config->size < 0) {
        bool no_rank = config->rank < 0;
        wring_error(log, "%s is set, %s is not: set both, or start with wring run",
                    no_rank ? "WRING_SIZE" : "WRING_RANK", no_rank ? "WRING_RANK" : "WRING_SIZE");
        return WRING_ERR_INVALID;
    }
    if (config->size < 1 || config->rank >= config->size) {
        wring_error(log, "rank %" PRId64 " of %" PRId64 ": ranks count from 0 to WRING_SIZE - 1",
                    config->rank, config->size);
        return WRING_ERR_INVALID;
    }
    out->name = "WRING_RANK and WRING_SIZE";
    out->rank = (uint32_t)config->rank;
    out->size = (uint32_t)config->size;
    out->local_size = (int32_t)config->local_size;
    return WRING_OK;
}

/** Nobody gave a rank. Is that what was meant? */
static enum wring_status read_alone(const struct wring_config *config, const struct wring_log *log)
{
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        if (variable(unknown[i].variable) != NULL) {
            wring_error(log,
                        "started by %s (%s is set), which wring cannot ask: set WRING_RANK, "
                        "WRING_SIZE, WRING_ROOT and WRING_KEY, or WRING_RANK=0 WRING_SIZE=1 for a "
                        "job of one",
                        unknown[i].name, unknown[i].variable);
            return WRING_ERR_UNSUPPORTED;
        }
    if (config->root[0] == '\0' && config->root_fd < 0)
        return WRING_OK;
    wring_error(log,
                "%s is set, but nothing gives this process a rank: set WRING_RANK and WRING_SIZE, "
                "or start with a launcher that wring info shows",
                config->root[0] != '\0' ? "WRING_ROOT" : "WRING_ROOT_FD");
    return WRING_ERR_INVALID;
}

enum wring_status wring_launcher_find(const struct wring_config *config,
                                      const struct wring_log *log, struct wring_launched *out)
{
    struct wring_launched found = {.size = 1, .local_rank = -1, .local_size = -1};
    enum wring_status status = WRING_OK;
    bool seen = config->rank >= 0 || config->size >= 0;

    if (seen)
        status = read_own(config, log, &found);
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]) && !seen; i++) {
        seen = launchers[i].seen();
        found.name = seen ? launchers[i].name : NULL;
        if (seen)
            status = launchers[i].read(log, &found);
    }
    if (!seen)
        status = read_alone(config, log);
    if (status == WRING_OK)
        *out = found;
    return status;
}

bool wring_launcher_own(struct wring_launcher_owner *owner)
{
    unsigned nobody = 0, own = wring_forked_begin() + 1;
    return atomic_compare_exchange_strong(&owner->forks, &nobody, own) || nobody == own;
}

enum wring_status wring_launcher_refuse_child(const struct wring_log *log)
{
    wring_error(log, "a forked child cannot use the launcher's exchange of its parent: set "
                     "WRING_RANK, WRING_SIZE, WRING_ROOT and WRING_KEY for it");
    return WRING_ERR_UNSUPPORTED;
}

/** Copy up to a bracket; of what stands in brackets, the first. */
bool wring_slurm_first_host(const char *list, char *out, size_t bytes)
{
    size_t n = 0;

    for (; *list != '\0' && *list != ','; list++) {
        if (*list == '[') {
            size_t length = strcspn(++list, "-,]");
            const char *end = strchr(list, ']');
            if (end == NULL || length == 0 || n + length >= bytes)
                return false;
            memcpy(out + n, list, length);
            n += length;
            list = end;
        } else if (n + 1 < bytes) {
            out[n++] = *list;
        } else {
            return false;
        }
    }
    out[n] = '\0';
    return n > 0;
}
