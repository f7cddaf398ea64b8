//! What NCCL's own NVTX ranges say of kernels whose name is silent.
//!
//! An all-to-all and a pipeline transfer are the same kernel, `SendRecv`. Where the capture holds
//! NCCL's NVTX domain, the call that launched the kernel tells them apart. Kernels inside CUDA
//! graphs were launched by nobody's call, and keep what their name says. The payloads that NCCL
//! attaches (message size, communicator) are declared in the exports seen but not in their rows.

use crate::capture::{NONE, NvtxKind, Trace};

/// NCCL's calls, by thread, in order of start.
pub(super) struct NcclCalls {
    by_thread: Vec<Vec<Call>>,
}

#[derive(Clone, Copy)]
struct Call {
    start: i64,
    end: i64,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    AllToAll,
    Send,
    Recv,
    GroupStart,
    GroupEnd,
    Other,
}

impl NcclCalls {
    pub(super) fn new(trace: &Trace) -> Self {
        let nvtx = trace.nvtx();
        let of_text: Vec<What> = nvtx
            .texts()
            .iter()
            .map(|text| match &**text {
                "ncclAlltoAll" | "ncclAllToAll" => What::AllToAll,
                "ncclSend" => What::Send,
                "ncclRecv" => What::Recv,
                "ncclGroupStart" => What::GroupStart,
                "ncclGroupEnd" => What::GroupEnd,
                _ => What::Other,
            })
            .collect();
        let mut by_thread = vec![Vec::new(); trace.threads().len()];
        for row in 0..nvtx.len() {
            let text = nvtx.text_index()[row];
            if nvtx.kind()[row] != NvtxKind::PushPop || text == NONE {
                continue;
            }
            let what = of_text[text as usize];
            if what != What::Other && nvtx.domain(row) == Some("NCCL") {
                by_thread[nvtx.thread()[row] as usize].push(Call {
                    start: nvtx.start()[row],
                    end: nvtx.end()[row],
                    what,
                });
            }
        }
        Self { by_thread }
    }

    /// Whether a kernel launched by row `launch` of the API table is an exchange of each of
    /// `ranks` ranks with every other: an all-to-all call, or a group with that many sends and
    /// receives.
    pub(super) fn is_all_to_all(&self, trace: &Trace, launch: u32, ranks: usize) -> bool {
        if launch == NONE {
            return false;
        }
        let at = trace.api().start()[launch as usize];
        let thread = trace.api().thread()[launch as usize];
        let Some(calls) = self.by_thread.get(thread as usize) else { return false };
        let before = calls.partition_point(|call| call.start <= at);
        // Calls nest at most a few deep.
        let around = calls[..before].iter().enumerate().rev().take(4).filter(|(_, c)| at <= c.end);
        for (index, call) in around {
            match call.what {
                What::AllToAll => return true,
                What::GroupEnd => {
                    let mut members = (0, 0);
                    for earlier in calls[..index].iter().rev() {
                        match earlier.what {
                            What::Send => members.0 += 1,
                            What::Recv => members.1 += 1,
                            What::GroupStart => break,
                            _ => {}
                        }
                    }
                    if members.0 >= ranks && members.1 >= ranks {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
}
