/* SPDX-License-Identifier: Apache-2.0 */
/** Two devices that are made up, with which memory is registered: which calls reach them, and what
 *  they refuse. */
#ifndef WRING_TESTS_UNIT_MADE_UP_DEVICES_H
#define WRING_TESTS_UNIT_MADE_UP_DEVICES_H

#include "base/config.h"
#include "base/log.h"
#include "transport/providers/verbs/memory.h"

#define RAILS 2
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define PAGES 16

/** Each registration has a number of its own, from 1, by which its keys are known. */
extern struct made_up_devices {
    unsigned made, alive;
    uint64_t locked, limit; /* bytes; 0: no limit */
    int error;              /* of the next registrations */
    bool strict;            /* they refuse relaxed ordering */
    int probe_error;        /* what a dma-buf of descriptor -1 gets */
    unsigned access;        /* of the last one */
    uint64_t iova, offset;
    int fd;
} devices;

extern struct verbs_library library;
extern struct wring_config config;
extern char said[1024]; /* the last line */
extern const struct wring_log log_said;
extern char *pages; /* PAGES of 4096 bytes */

/** Map the pages. The test is skipped where pages have another size. @return false: no memory */
bool devices_begin(void);

/** As at first: nothing is registered. */
void restart(void);

/** @param settings  NAME, VALUE, ..., NULL */
struct verbs_memory *open_memory(const char *const *settings);

struct wring_memory host(void *base, size_t bytes, bool source_only);

/** Register what is taken. */
struct wring_region *make_region(struct verbs_memory *memory, struct wring_memory what);

#endif
