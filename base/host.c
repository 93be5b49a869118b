/* SPDX-License-Identifier: Apache-2.0 */
#include "base/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool wring_host_identity(char *text, size_t bytes)
{
    char boot[64] = "";
    struct stat ns;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL)
        return false;
    bool ok = fgets(boot, sizeof(boot), file) != NULL;
    fclose(file);
    boot[strcspn(boot, "\n")] = '\0';
    if (!ok || stat("/proc/self/ns/net", &ns) != 0)
        return false;
    snprintf(text, bytes, "%s/net:%llu", boot, (unsigned long long)ns.st_ino);
    return true;
}

bool wring_host_of_rank(const char *node, uint32_t rank, char *text, size_t bytes)
{
    if (node[0] != '\0') {
        snprintf(text, bytes, "node:%s", node);
        return true;
    }
    bool known = wring_host_identity(text, bytes);
    if (!known)
        snprintf(text, bytes, "rank:%" PRIu32, rank);
    return known;
}
