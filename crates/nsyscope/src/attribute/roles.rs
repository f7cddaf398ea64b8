//! The roles of a run's activities.

use super::role::Role;
use super::step::Work;
use crate::analysis::{Activity, ActivityKind, Classes};
use crate::capture::{CopyDirection, Trace};
use crate::run::Run;

/// The role of every kernel name of a run; each name is looked at once.
#[derive(Clone, Debug)]
pub struct Roles {
    kernels: Vec<Vec<Role>>,
    /// For each trace, how many kernel names those before it have.
    offsets: Vec<u32>,
}

/// Names of what has no name: above every kernel name's number.
const UNNAMED: u32 = u32::MAX - 64;

impl Roles {
    /// Looks up the roles of a run's kernel names.
    pub fn new(run: &Run, classes: &Classes) -> Self {
        let kernels: Vec<Vec<Role>> = run
            .traces()
            .iter()
            .enumerate()
            .map(|(file, trace)| {
                let names = trace.kernel_names().iter().enumerate();
                names
                    .map(|(i, name)| {
                        let category = classes.kernel(file, i as u32) as usize;
                        Role::new(&classes.categories()[category], &name.demangled)
                    })
                    .collect()
            })
            .collect();
        let mut before = 0u32;
        let offsets = kernels
            .iter()
            .map(|names| {
                let offset = before;
                before += names.len() as u32;
                offset
            })
            .collect();
        Self { kernels, offsets }
    }

    /// The demangled name behind [`Work::name`]; `None` for copies, fills and whole graphs.
    pub fn kernel_name<'r>(&self, run: &'r Run, name: u32) -> Option<&'r str> {
        let file = self.offsets.partition_point(|&offset| offset <= name).checked_sub(1)?;
        let names = run.traces().get(file)?.kernel_names();
        names.get((name - self.offsets[file]) as usize).map(|n| &*n.demangled)
    }

    /// The role of a kernel name of a trace.
    pub fn kernel(&self, file: usize, name: u32) -> Role {
        self.kernels[file][name as usize]
    }

    /// An activity of a trace as the alignment takes it; names of different traces differ.
    pub fn work(&self, file: usize, trace: &Trace, activity: &Activity) -> Work {
        let row = activity.row as usize;
        let (name, role) = match activity.table {
            ActivityKind::Kernel => {
                let name = trace.kernels().name()[row];
                (self.offsets[file] + name, self.kernels[file][name as usize])
            }
            ActivityKind::Graph => (UNNAMED, Role::Other),
            ActivityKind::Memset => (UNNAMED + 1, Role::Fill),
            ActivityKind::Memcpy => match trace.memcpys().direction()[row] {
                CopyDirection::DeviceToDevice
                | CopyDirection::UnifiedDeviceToDevice
                | CopyDirection::PeerToPeer => (UNNAMED + 2, Role::Move),
                _ => (UNNAMED + 3, Role::HostCopy),
            },
        };
        Work { name, role, stream: activity.stream, start: activity.start, end: activity.end }
    }
}
