/* SPDX-License-Identifier: Apache-2.0 */
/* Traces by name: those of a folder, or those that wring ships. */
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "planner/files/tensor_trace.h"

#define WRING_MODULE "planner"
#define ENDING ".json"

static bool has_ending(const char *name)
{
    size_t n = strlen(name);
    return n > strlen(ENDING) && strcmp(name + n - strlen(ENDING), ENDING) == 0;
}

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && !S_ISDIR(about.st_mode);
}

static bool is_path(const char *name)
{
    return strchr(name, '/') != NULL || has_ending(name) || is_file(name);
}

static int is_trace(const struct dirent *entry)
{
    return has_ending(entry->d_name) && entry->d_name[0] != '.';
}

/** "a, b, c" of a folder's traces; "none" where there are none, or no folder. */
static void list_names(const char *folder, char *text, size_t bytes)
{
    struct dirent **entries;
    size_t used = 0;
    int n = scandir(folder, &entries, is_trace, alphasort);

    snprintf(text, bytes, "none");
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used > 0 ? ", " : "",
                                     (int)(strlen(name) - strlen(ENDING)), name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

enum wring_status wring_tensor_trace_find(const char *name, const char *folder,
                                          const struct wring_log *log, char *path, size_t bytes)
{
    char found[4096], names[512];

    if (folder[0] == '\0') {
        folder = WRING_TRACES_SOURCE "/vgg16" ENDING;
        folder = is_file(folder) ? WRING_TRACES_SOURCE : WRING_TRACES_INSTALLED;
    }
    int length = is_path(name) ? snprintf(found, sizeof(found), "%s", name)
                               : snprintf(found, sizeof(found), "%s/%s" ENDING, folder, name);
    bool fits = length < (int)sizeof(found) && length < (int)bytes;
    if (fits && (is_path(name) || is_file(found))) {
        memcpy(path, found, (size_t)length + 1);
        return WRING_OK;
    }
    list_names(folder, names, sizeof(names));
    wring_error(log, "%s: neither a file nor the name of a trace in %s, which has %s", name, folder,
                names);
    return WRING_ERR_INVALID;
}
