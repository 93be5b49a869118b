/* SPDX-License-Identifier: Apache-2.0 */
/** Names of numbers. */
#include "tests/provider/mock/mock_inside.h"

/* clang-format off */
static const char *const statuses[] = {
    [IBV_WC_SUCCESS] = "success",
    [IBV_WC_LOC_LEN_ERR] = "local length error",
    [IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
    [IBV_WC_LOC_PROT_ERR] = "local protection error",
    [IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
    [IBV_WC_BAD_RESP_ERR] = "bad response error",
    [IBV_WC_LOC_ACCESS_ERR] = "local access error",
    [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
    [IBV_WC_REM_ACCESS_ERR] = "remote access error",
    [IBV_WC_REM_OP_ERR] = "remote operation error",
    [IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
    [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
    [IBV_WC_REM_ABORT_ERR] = "remote aborted error",
    [IBV_WC_FATAL_ERR] = "fatal error",
    [IBV_WC_GENERAL_ERR] = "general error",
};
static const char *const events[] = {
    [IBV_EVENT_CQ_ERR] = "CQ error",
    [IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
    [IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error",
    [IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error",
    [IBV_EVENT_COMM_EST] = "communication established",
    [IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
    [IBV_EVENT_PORT_ACTIVE] = "port active",
    [IBV_EVENT_PORT_ERR] = "port error",
    [IBV_EVENT_LID_CHANGE] = "LID change",
    [IBV_EVENT_PKEY_CHANGE] = "P_Key change",
    [IBV_EVENT_GID_CHANGE] = "GID table change",
};
static const char *const states[] = {"no state change (NOP)", "DOWN", "INIT", "ARMED", "ACTIVE"};
/* clang-format on */

#define NAME(list, at)                                                                    \
    ((unsigned)(at) < sizeof(list) / sizeof((list)[0]) && (list)[at] != NULL ? (list)[at] \
                                                                             : "unknown")

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return NAME(statuses, status);
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
    return NAME(events, event);
}

const char *ibv_port_state_str(enum ibv_port_state state)
{
    return NAME(states, state);
}

const char *ibv_node_type_str(enum ibv_node_type type)
{
    return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

int ibv_fork_init(void)
{
    return 0;
}
