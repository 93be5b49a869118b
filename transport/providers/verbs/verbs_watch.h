/* SPDX-License-Identifier: Apache-2.0 */
/** What the provider's epoll set watches, and who is told of news there. */
#ifndef WRING_VERBS_WATCH_H
#define WRING_VERBS_WATCH_H

enum verbs_watched {
    VERBS_WATCH_LISTENER, /* owner: verbs_provider */
    VERBS_WATCH_STREAM,   /* owner: verbs_conn */
    VERBS_WATCH_NOTICES,  /* owner: verbs_rail, its completion channel */
    VERBS_WATCH_ASYNC,    /* owner: verbs_rail */
};

struct verbs_watch {
    enum verbs_watched what;
    void *owner;
};

#endif
