/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/states.h"

/* clang-format off */
enum { /* short, for the table */
    X = VERBS_BREACH, N = VERBS_NEVER,
    CON = VERBS_CONNECTING, AUT = VERBS_AUTH, OFF = VERBS_OFFER, CAR = VERBS_CARDS,
    RDY = VERBS_READY, OPN = VERBS_OPEN, STP = VERBS_STOPPED, HRD = VERBS_HEARD,
    TLD = VERBS_TOLD, BTH = VERBS_BOTH_TOLD, RSM = VERBS_RESUMED, ANS = VERBS_ANSWERED,
    BRS = VERBS_BOTH_RESUMED, JND = VERBS_JOINED, DRN = VERBS_DRAINING, DED = VERBS_DEAD,
};

/* columns in the order of enum verbs_event, whose first is 1 */
static const uint8_t table[VERBS_STATES][VERBS_EVENTS] = {
/*                         the peer's words:                   our own:
                           offer      ready      resume    try      proved     told       joined     failed
                                cards      resync     go       reached   change     resumed    left       drained */
[VERBS_CONNECTING]   = {0, X,   X,    X,   X,    X,   X,   X,  AUT,  N,   CON, N,   N,   N,   DED, DED, N},
[VERBS_AUTH]         = {0, X,   X,    X,   X,    X,   X,   X,  N,    OFF, AUT, N,   N,   N,   DED, DED, N},
[VERBS_OFFER]        = {0, CAR, X,    X,   X,    X,   X,   X,  N,    N,   OFF, N,   N,   N,   DED, DED, N},
[VERBS_CARDS]        = {0, X,   RDY,  X,   X,    X,   X,   X,  N,    N,   CAR, N,   N,   N,   DED, DED, N},
[VERBS_READY]        = {0, X,   X,    OPN, X,    X,   X,   X,  N,    N,   RDY, N,   N,   N,   DED, DED, N},
[VERBS_OPEN]         = {0, X,   X,    X,   HRD,  OPN, OPN, OPN, N,   N,   STP, N,   N,   N,   DRN, DED, N},
[VERBS_STOPPED]      = {0, X,   X,    X,   HRD,  STP, STP, STP, N,   N,   STP, TLD, N,   N,   DRN, DED, N},
[VERBS_HEARD]        = {0, X,   X,    X,   HRD,  HRD, HRD, HRD, N,   N,   HRD, BTH, N,   N,   DRN, DED, N},
[VERBS_TOLD]         = {0, X,   X,    X,   BTH,  TLD, TLD, TLD, N,   N,   STP, N,   N,   N,   DRN, DED, N},
[VERBS_BOTH_TOLD]    = {0, X,   X,    X,   BTH,  ANS, BTH, BTH, N,   N,   HRD, N,   RSM, N,   DRN, DED, N},
[VERBS_RESUMED]      = {0, X,   X,    X,   BTH,  BRS, RSM, RSM, N,   N,   HRD, N,   N,   N,   DRN, DED, N},
[VERBS_ANSWERED]     = {0, X,   X,    X,   BTH,  ANS, ANS, ANS, N,   N,   HRD, N,   BRS, N,   DRN, DED, N},
[VERBS_BOTH_RESUMED] = {0, X,   X,    X,   BTH,  BRS, BRS, BRS, N,   N,   HRD, N,   N,   JND, DRN, DED, N},
[VERBS_JOINED]       = {0, X,   X,    X,   BTH,  JND, OPN, JND, N,   N,   STP, N,   N,   N,   DRN, DED, N},
[VERBS_DRAINING]     = {0, X,   X,    X,   DRN,  DRN, DRN, DRN, N,   N,   DRN, N,   N,   N,   DRN, DED, DED},
[VERBS_DEAD]         = {0, DED, DED,  DED, DED,  DED, DED, DED, DED, DED, DED, DED, DED, DED, DED, DED, DED},
};

enum { W = VERBS_PATH_WORKS, L = VERBS_PATH_LOST, T = VERBS_PATH_TRIED, H = VERBS_PATH_HOPEFUL,
       R = VERBS_PATH_RENEWED };

/* columns in the order of enum verbs_path_event, whose first is 1 */
static const uint8_t path_table[VERBS_PATH_STATES][VERBS_PATH_EVENTS] = {
/*                          fail  try  vain  hope  renew  back  without */
[VERBS_PATH_WORKS]   = {0,  L,    N,   N,    W,    N,     N,    W},
[VERBS_PATH_LOST]    = {0,  L,    T,   L,    H,    R,     N,    L},
[VERBS_PATH_TRIED]   = {0,  T,    N,   L,    H,    N,     N,    N},
[VERBS_PATH_HOPEFUL] = {0,  H,    T,   H,    H,    R,     N,    H},
[VERBS_PATH_RENEWED] = {0,  L,    N,   N,    R,    R,     W,    H},
};
/* clang-format on */

unsigned wring_verbs_next(enum verbs_state state, enum verbs_event event)
{
    return table[state][event];
}

unsigned wring_verbs_path_next(enum verbs_path_state state, enum verbs_path_event event)
{
    return path_table[state][event];
}
