/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange by PMIx, with a double of its library (pmix_double.c). Ranks are processes, as the
 * client belongs to one. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "transport/bootstrap/launcher.h"

#define RANKS 3
#define TURNS 2

static const struct wring_log quiet = {.level = WRING_LOG_DEBUG};

static void set(const char *name, unsigned value)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", value);
    setenv(name, text, 1);
}

/** A child of a rank that exits by itself must not end the exchange of its parent. */
static bool child_leaves_it_alone(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        exit(0);
    return waitpid(child, &status, 0) == child && status == 0;
}

/** @return the exit code */
static int take_part(unsigned rank, enum wring_status want)
{
    uint64_t patience_ns = want == WRING_ERR_PEER ? WRING_NS_PER_S / 2 : 20 * WRING_NS_PER_S;
    char why[256];

    if (!wring_exchange_pmix.usable(why, sizeof(why)))
        return 2;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        char text[WRING_LAUNCHER_TEXT] = "", told[WRING_LAUNCHER_TEXT];
        snprintf(told, sizeof(told), "wring1|10.0.0.1:4000|%u", turn);
        if (rank == 0)
            strcpy(text, told);
        enum wring_status status =
            wring_exchange_pmix.broadcast(&quiet, rank == 0, wring_deadline_in(patience_ns), text);
        if (status != want)
            return 3;
        if (want != WRING_OK)
            return 0;
        if (strcmp(text, told) != 0 || !child_leaves_it_alone())
            return 4;
    }
    uint32_t size = 0;
    return wring_pmix_job_size(&quiet, &size) == WRING_OK && size == RANKS ? 0 : 5;
}

/** How many files of the folder begin so; they and the folder are removed with `remove`. */
static unsigned count(const char *folder, const char *begin, bool remove)
{
    unsigned n = 0;
    char path[512];
    DIR *files = opendir(folder);
    for (struct dirent *at; files != NULL && (at = readdir(files)) != NULL;) {
        n += strncmp(at->d_name, begin, strlen(begin)) == 0;
        snprintf(path, sizeof(path), "%s/%s", folder, at->d_name);
        if (remove)
            unlink(path);
    }
    if (files != NULL)
        closedir(files);
    if (remove)
        rmdir(folder);
    return n;
}

/** @param fails  what goes wrong; in the ranks from `first` on */
static void run(const char *fails, unsigned first, enum wring_status want)
{
    char folder[] = "/tmp/wring-pmix-XXXXXX";
    pid_t pids[RANKS];

    REQUIRE(mkdtemp(folder) != NULL, "no folder");
    setenv("PMIX_DOUBLE", folder, 1);
    setenv("PMIX_NAMESPACE", "job", 1);
    set("PMIX_DOUBLE_SIZE", RANKS);
    for (unsigned rank = 0; rank < RANKS; rank++) {
        fflush(NULL);
        pids[rank] = fork();
        if (pids[rank] != 0)
            continue;
        set("PMIX_RANK", rank);
        if (rank >= first)
            setenv("PMIX_DOUBLE_FAILS", fails, 1);
        exit(take_part(rank, rank >= first || want == WRING_ERR_PEER ? want : WRING_OK));
    }
    for (unsigned rank = 0; rank < RANKS; rank++) {
        int status = -1;
        waitpid(pids[rank], &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: rank %u: %d", fails, rank,
              status);
    }
    CHECK(count(folder, "begun", false) == count(folder, "ended", false), "%s: %u ended", fails,
          count(folder, "ended", false));
    count(folder, "", true);
}

static void all_ranks_hear_what_rank_0_tells(void)
{
    run("", RANKS, WRING_OK);
    run("nothing, and at once", 0, WRING_OK);
}

static void failures_are_named_and_end(void)
{
    run("init", 0, WRING_ERR_SYSTEM);
    run("fence", 1, WRING_ERR_PEER); /* two ranks never arrive */
}

static void a_library_that_is_not_there_is_said(void)
{
    char why[256] = "";
    unsetenv("PMIX_RANK");
    CHECK(!wring_exchange_pmix.usable(why, sizeof(why)) && strstr(why, "PMIX_RANK") != NULL, "%s",
          why);
}

static const struct wring_test_case cases[] = {
    {"all ranks hear what rank 0 tells", all_ranks_hear_what_rank_0_tells},
    {"failures are named and end", failures_are_named_and_end},
    {"a library that is not there is said", a_library_that_is_not_there_is_said},
    {0},
};

int main(int argc, char **argv)
{
    setenv("OMPI_LIBDIR_LOC", argc > 1 ? argv[1] : ".", 1);
    return wring_test_main(1, argv, cases);
}
