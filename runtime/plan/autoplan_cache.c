/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept between jobs: profiles, one for each machine, way of starting and version; and a
 * plan, for who asks for it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/draft.h"
#include "planner/files/plan.h"
#include "runtime/plan/autoplan.h"

#define WRING_MODULE "plan"
#define PATH_BYTES 4096

/** The folder. @return false: nothing is kept */
static bool find_folder(const struct wring_config *config, char *path, size_t bytes)
{
    const char *xdg = wring_config_foreign("XDG_CACHE_HOME"), *home = wring_config_foreign("HOME");

    if (strcmp(config->cache, "off") == 0)
        return false;
    if (config->cache[0] != '\0')
        return (size_t)snprintf(path, bytes, "%s", config->cache) < bytes;
    if (xdg != NULL && xdg[0] == '/')
        return (size_t)snprintf(path, bytes, "%s/wring", xdg) < bytes;
    return home != NULL && home[0] == '/' &&
           (size_t)snprintf(path, bytes, "%s/.cache/wring", home) < bytes;
}

/** A file's name tells machines apart, and how codecs run and pieces are cut as configured; what is
 *  in it is compared again. */
static bool find_file(const struct wring_autoplan *autoplan, char *path, size_t bytes)
{
    const struct wring_autoplan_leeway *leeway = &autoplan->leeway;
    char folder[PATH_BYTES], text[sizeof(autoplan->machine.text) + WRING_CONFIG_TEXT + 32];
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */

    snprintf(text, sizeof(text), "%s, %s, %" PRIu64, autoplan->machine.text, leeway->executor,
             leeway->chunk_bytes);
    for (const char *at = text; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return find_folder(&autoplan->session->config, folder, sizeof(folder)) &&
           (size_t)snprintf(path, bytes, "%s/profile-%016" PRIx64 ".json", folder, hash) < bytes;
}

struct wring_profile *wring_autoplan_load(const struct wring_autoplan *autoplan)
{
    const struct wring_log *log = &autoplan->session->log;
    struct wring_log heard = *log;
    struct wring_profile *profile = NULL;
    char path[PATH_BYTES + 64];

    if (!find_file(autoplan, path, sizeof(path)) || access(path, F_OK) != 0)
        return NULL;
    enum wring_status status = wring_profile_load(path, &heard, &profile);
    if (status == WRING_OK)
        status = wring_profile_check_machine(profile, autoplan->machine.text, &heard);
    if (status == WRING_OK) {
        wring_profile_label_ways(profile,
                                 &autoplan->leeway.setting); /* older files do not say it */
        return profile;
    }
    wring_warn(log, "WRING_PLAN=auto: %s cannot be used: exchanges are measured anew", path);
    wring_profile_destroy(profile);
    return NULL;
}

/** All folders of a path. */
static bool make_folders(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!there)
            return false;
    }
    return true;
}

static bool write_profile(const struct wring_profile *profile, const char *path)
{
    struct wring_draft draft;

    return wring_draft_open(&draft, path, 0600) &&
           wring_draft_close(&draft, path, wring_profile_save(profile, draft.file) == WRING_OK);
}

static bool write_plan(const struct wring_plan *plan, const char *path)
{
    struct wring_draft draft;

    return wring_draft_open(&draft, path, 0644) &&
           wring_draft_close(&draft, path, wring_plan_save(plan, draft.file) == WRING_OK);
}

void wring_autoplan_save(const struct wring_autoplan *autoplan)
{
    char path[PATH_BYTES + 64];

    if (!find_file(autoplan, path, sizeof(path)))
        return;
    if (!make_folders(path) || !write_profile(autoplan->profile, path))
        wring_warn(&autoplan->session->log,
                   "WRING_PLAN=auto: %s cannot be written (%s): the next job measures again", path,
                   strerror(errno));
}

void wring_autoplan_save_plan(const struct wring_autoplan *autoplan)
{
    const struct wring_plan *plan = autoplan->ways[autoplan->at].plan;
    const struct wring_log *log = &autoplan->session->log;
    const char *path = autoplan->session->config.plan_save;

    if (path[0] == '\0')
        return;
    if (plan == NULL)
        wring_warn(log, "WRING_PLAN_SAVE=%s: no plan is kept, so none is written", path);
    else if (!write_plan(plan, path))
        wring_warn(log, "WRING_PLAN_SAVE=%s: the plan cannot be written: %s", path,
                   strerror(errno));
    else
        wring_info(log, "WRING_PLAN_SAVE=%s: the plan is written", path);
}
