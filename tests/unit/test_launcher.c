/* SPDX-License-Identifier: Apache-2.0 */
/* What the table of launchers makes of a process's variables. */
#include "transport/bootstrap/launcher.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/lines.h"
#include "tests/lib/test.h"

static const char *const known[] = {
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "PMI_PORT",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "HYDI_CONTROL_FD",
    "HYDRA_PROXY_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_JOB_ID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "SLURM_LOCALID",
    "SLURM_RESTART_COUNT",
    "PALS_RANKID",
    "ALPS_APP_PE",
    "FLUX_TASK_RANK",
    "MV2_COMM_WORLD_RANK",
    "JSM_NAMESPACE_RANK",
};

/** Exactly these: "A=1 B=2". */
static void set_variables(const char *text)
{
    char copy[512], *rest;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        unsetenv(known[i]);
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *at = strtok_r(copy, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(at, '=');
        *equals = '\0';
        setenv(at, equals + 1, 1);
    }
}

static struct wring_test_lines lines;

static enum wring_status find(const char *variables, const char *own, struct wring_launched *out)
{
    struct wring_log log = {wring_test_lines_take, &lines, WRING_LOG_WARN};
    struct wring_config config;
    char copy[128], *rest;

    lines = WRING_TEST_LINES_INIT;
    set_variables(variables);
    wring_config_defaults(&config, &log);
    snprintf(copy, sizeof(copy), "%s", own);
    for (char *at = strtok_r(copy, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(at, '=');
        *equals = '\0';
        wring_config_set(&config, &log, at, equals + 1);
    }
    *out = (struct wring_launched){.rank = 77};
    return wring_launcher_find(&config, &log, out);
}

static void launchers_are_told_by_their_variables(void)
{
    static const struct {
        const char *variables, *own, *name, *exchange, *host;
        uint32_t rank, size;
        int32_t local_rank, local_size;
    } cases[] = {
        {"", "", NULL, NULL, "", 0, 1, -1, -1},
        {"", "WRING_RANK=2 WRING_SIZE=3", "WRING_RANK and WRING_SIZE", NULL, "", 2, 3, -1, -1},
        {"TORCHELASTIC_RUN_ID=none RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "
         "MASTER_ADDR=node7 MASTER_PORT=29500",
         "", "torchrun", NULL, "node7", 1, 2, 1, 2},
        {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=node7", "", "RANK and WORLD_SIZE", NULL, "node7", 1, 2,
         -1, -1},
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=1",
         "", "Open MPI", "PMIx", "", 0, 1, 0, 1},
        {"PMI_RANK=1 PMI_SIZE=4 PMI_FD=0 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "", "Hydra (PMI-1)",
         "PMI-1", "", 1, 4, 1, 2},
        {"PMI_RANK=1 PMI_SIZE=4 PMI_FD=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_LOCALID=1",
         "", "Slurm (PMI-2)", "PMI-2", "", 1, 4, 1, -1},
        {"PMI_RANK=1 PMI_SIZE=4 PMI_FD=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1", "",
         "Slurm (PMI-2)", "PMI-2", "", 1, 4, -1, 4},
        {"SLURM_STEP_ID=3 SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_NUM_NODES=2 "
         "SLURM_STEP_NODELIST=gpu[07-08] SLURM_LOCALID=1 SLURM_JOB_ID=12",
         "", "Slurm", NULL, "gpu07", 5, 8, 1, -1},
        /* within others: the innermost one started this process */
        {"TORCHELASTIC_RUN_ID=a RANK=0 WORLD_SIZE=2 MASTER_ADDR=h PMIX_RANK=0 PMIX_NAMESPACE=x "
         "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4",
         "", "torchrun", NULL, "h", 0, 2, -1, -1},
        {"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 PMI_RANK=1 PMI_SIZE=2 PMI_FD=0 "
         "MPI_LOCALNRANKS=2",
         "", "Hydra (PMI-1)", "PMI-1", "", 1, 2, -1, 2},
        {"SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4", "WRING_RANK=0 WRING_SIZE=1",
         "WRING_RANK and WRING_SIZE", NULL, "", 0, 1, -1, -1},
        /* a batch script is no step, and a lone RANK is anybody's */
        {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=12", "", NULL, NULL, "", 0, 1, -1, -1},
        {"RANK=3", "", NULL, NULL, "", 0, 1, -1, -1},
        {"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", "", "Slurm", NULL, "", 0, 1, -1,
         -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wring_launched got;
        enum wring_status status = find(cases[i].variables, cases[i].own, &got);
        const char *name = cases[i].name != NULL ? cases[i].name : "nobody";
        const char *exchange = cases[i].exchange != NULL ? cases[i].exchange : "none";
        CHECK(status == WRING_OK && lines.text[0] == '\0', "%s: %d, %s", cases[i].variables, status,
              lines.text);
        CHECK(strcmp(got.name != NULL ? got.name : "nobody", name) == 0, "%s: %s, not %s",
              cases[i].variables, got.name, name);
        CHECK(strcmp(got.exchange != NULL ? got.exchange->name : "none", exchange) == 0,
              "%s: not by %s", cases[i].variables, exchange);
        CHECK(got.rank == cases[i].rank && got.size == cases[i].size, "%s: %u of %u",
              cases[i].variables, got.rank, got.size);
        CHECK(got.local_rank == cases[i].local_rank && got.local_size == cases[i].local_size,
              "%s: here %d of %d", cases[i].variables, got.local_rank, got.local_size);
        CHECK(strcmp(got.host, cases[i].host) == 0, "%s: at %s", cases[i].variables, got.host);
    }
}

static void what_is_seen_and_cannot_be_used_is_an_error(void)
{
    static const struct {
        const char *variables, *own, *says, *remedy;
        enum wring_status status;
    } cases[] = {
        {"", "WRING_SIZE=2", "WRING_RANK is not", "wring run", WRING_ERR_INVALID},
        {"", "WRING_RANK=2 WRING_SIZE=2", "rank 2 of 2", "count from 0", WRING_ERR_INVALID},
        {"", "WRING_ROOT=h:1", "nothing gives this process a rank", "WRING_RANK and WRING_SIZE",
         WRING_ERR_INVALID},
        {"TORCHELASTIC_RUN_ID=a RANK=0", "", "WORLD_SIZE is not set", "WRING_RANK",
         WRING_ERR_INVALID},
        {"TORCHELASTIC_RUN_ID=a RANK=0 WORLD_SIZE=2", "", "MASTER_ADDR is not set", "torchrun",
         WRING_ERR_INVALID},
        {"RANK=x WORLD_SIZE=2 MASTER_ADDR=h", "", "RANK is no number: x", "WRING_RANK",
         WRING_ERR_INVALID},
        {"RANK=2 WORLD_SIZE=2 MASTER_ADDR=h", "", "rank 2 (RANK) of 2", "", WRING_ERR_INVALID},
        {"RANK=-1 WORLD_SIZE=2 MASTER_ADDR=h", "", "RANK is no number", "", WRING_ERR_INVALID},
        {"RANK=99999999999999999999 WORLD_SIZE=2 MASTER_ADDR=h", "", "RANK is no number", "",
         WRING_ERR_INVALID},
        {"OMPI_COMM_WORLD_RANK=1", "", "OMPI_COMM_WORLD_SIZE is not set", "WRING_RANK",
         WRING_ERR_INVALID},
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", "", "PMIX_NAMESPACE is not set",
         "WRING_RANK", WRING_ERR_UNSUPPORTED},
        {"PMIX_NAMESPACE=a", "", "PMIX_RANK is not set", "WRING_RANK", WRING_ERR_UNSUPPORTED},
        {"PMI_RANK=1 PMI_SIZE=2", "", "PMI_FD is not set", "WRING_RANK", WRING_ERR_UNSUPPORTED},
        {"PMI_RANK=1 PMI_SIZE=2 PMI_FD=900", "", "no open descriptor", "closed it",
         WRING_ERR_UNSUPPORTED},
        {"PMI_RANK=1 PMI_SIZE=2 PMI_FD=7x", "", "no open descriptor", "closed it",
         WRING_ERR_UNSUPPORTED},
        {"PMI_RANK=1 PMI_SIZE=2 PMI_PORT=h:5", "", "PMI_FD is not set", "-pmi-port",
         WRING_ERR_UNSUPPORTED},
        {"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2", "", "SLURM_PROCID is not set", "WRING_RANK",
         WRING_ERR_INVALID},
        {"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1", "", "SLURM_STEP_NODELIST",
         "--mpi=pmi2", WRING_ERR_INVALID},
        {"PALS_RANKID=0", "", "started by PALS", "WRING_RANK=0 WRING_SIZE=1",
         WRING_ERR_UNSUPPORTED},
        {"MV2_COMM_WORLD_RANK=0", "", "mpirun_rsh", "WRING_RANK", WRING_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wring_launched got;
        enum wring_status status = find(cases[i].variables, cases[i].own, &got);
        CHECK(status == cases[i].status, "%s %s: %d", cases[i].variables, cases[i].own, status);
        CHECK(got.rank == 77, "%s %s: something was written", cases[i].variables, cases[i].own);
        CHECK(strstr(lines.text, cases[i].says) != NULL &&
                  strstr(lines.text, cases[i].remedy) != NULL,
              "%s %s: %s", cases[i].variables, cases[i].own, lines.text);
    }
}

static void restarted_workers_have_another_job(void)
{
    struct wring_launched first, second;
    const char *variables = "TORCHELASTIC_RUN_ID=r RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5";
    char restarted[256];

    find(variables, "", &first);
    snprintf(restarted, sizeof(restarted), "%s TORCHELASTIC_RESTART_COUNT=1", variables);
    find(restarted, "", &second);
    CHECK(strcmp(first.job, second.job) != 0, "%s", first.job);
}

static void the_first_host_of_a_slurm_list(void)
{
    static const struct {
        const char *list, *want;
    } cases[] = {
        {"node1", "node1"},
        {"node[03-07,9],login", "node03"},
        {"a,b", "a"},
        {"rack[0-1]n[5,6]-ib", "rack0n5-ib"},
        {"n[12]", "n12"},
        {"", NULL},
        {",a", NULL},
        {"n[", NULL},
        {"n[]", NULL},
        {"n[1-2", NULL},
        {"a234567890123456789012345678901", NULL}, /* no room */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char host[31] = "";
        bool is_list = wring_slurm_first_host(cases[i].list, host, sizeof(host));
        CHECK(is_list == (cases[i].want != NULL), "%s", cases[i].list);
        CHECK(!is_list || strcmp(host, cases[i].want) == 0, "%s: %s", cases[i].list, host);
    }
}

static void ports_follow_from_the_job(void)
{
    struct wring_ports none = {0, 0}, few = {40000, 40002}, many = {40000, 49999};
    struct wring_ports a = wring_launcher_ports(&none, "job 1");
    struct wring_ports again = wring_launcher_ports(&none, "job 1");

    CHECK(a.first == again.first && a.last == again.last, "%u, %u", a.first, again.first);
    CHECK(a.first >= 1024 && a.last < 32768 && a.last - a.first == WRING_LAUNCHER_PORTS - 1,
          "%u-%u", a.first, a.last);
    CHECK(wring_launcher_ports(&none, "job 2").first != a.first, "%u", a.first);
    CHECK(wring_launcher_ports(&few, "job 1").last == 40002, "not the given ones");
    CHECK(wring_launcher_ports(&many, "job 1").last == 40000 + WRING_LAUNCHER_PORTS - 1,
          "too many to try");
}

static const struct wring_test_case cases[] = {
    {"launchers are told by their variables", launchers_are_told_by_their_variables},
    {"what is seen and cannot be used is an error", what_is_seen_and_cannot_be_used_is_an_error},
    {"restarted workers have another job", restarted_workers_have_another_job},
    {"the first host of a slurm list", the_first_host_of_a_slurm_list},
    {"ports follow from the job", ports_follow_from_the_job},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
