/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_counters.h"

void wring_verbs_counters_since(struct wring_verbs_counters *now,
                                const struct wring_verbs_counters *before)
{
    now->puts -= before->puts;
    now->put_bytes -= before->put_bytes;
    now->sends -= before->sends;
    now->requests -= before->requests;
    now->signalled -= before->signalled;
    now->inlined -= before->inlined;
    now->doorbells -= before->doorbells;
    now->credit_writes -= before->credit_writes;
    now->receives -= before->receives;
    now->receive_doorbells -= before->receive_doorbells;
    now->completions -= before->completions;
    now->control_bytes -= before->control_bytes;
    now->copied_bytes -= before->copied_bytes;
    now->registrations -= before->registrations;
    now->paths_lost -= before->paths_lost;
    now->trials -= before->trials;
    now->resyncs -= before->resyncs;
    now->recoveries -= before->recoveries;
}
