/* SPDX-License-Identifier: Apache-2.0 */
#include <wring/status.h>

const char *wring_status_text(enum wring_status status)
{
    switch (status) {
    case WRING_OK:
        return "success";
    case WRING_ERR_INVALID:
        return "invalid argument";
    case WRING_ERR_UNSUPPORTED:
        return "not supported here";
    case WRING_ERR_NO_MEMORY:
        return "out of memory";
    case WRING_ERR_AGAIN:
        return "not now, try again";
    case WRING_ERR_BUSY:
        return "object in use";
    case WRING_ERR_TIMEOUT:
        return "deadline passed";
    case WRING_ERR_MISMATCH:
        return "ranks disagree";
    case WRING_ERR_FRAME:
        return "malformed bytes received";
    case WRING_ERR_VERSION:
        return "incompatible version";
    case WRING_ERR_PEER:
        return "peer lost";
    case WRING_ERR_AUTH:
        return "wrong or missing job key";
    case WRING_ERR_CLOSED:
        return "closed or failed earlier";
    case WRING_ERR_ADDRESS:
        return "address cannot be used";
    case WRING_ERR_DEVICE:
        return "device failed";
    case WRING_ERR_SYSTEM:
        return "system call failed";
    case WRING_ERR_CANCELLED:
        return "cancelled";
    case WRING_ERR_TRUNCATED:
        return "message longer than its receive";
    }
    return "unknown status";
}
