//! The roles of a run's activities.

use std::collections::BTreeMap;

use super::role::Role;
use super::step::Work;
use crate::analysis::{Activity, ActivityKind, Classes};
use crate::capture::{CopyDirection, Trace};
use crate::run::Run;

/// The role of every kernel name of a run; each name is looked at once.
#[derive(Clone, Debug)]
pub struct Roles {
    kernels: Vec<Vec<Role>>,
    /// For each kernel name of each trace its number; a name has the same in all of them, so that
    /// the steps of ranks whose captures are files of their own are seen to be the same.
    numbers: Vec<Vec<u32>>,
    /// Trace and name of each number.
    names: Vec<(usize, u32)>,
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
        let (mut names, mut known) = (Vec::new(), BTreeMap::new());
        let numbers = run
            .traces()
            .iter()
            .enumerate()
            .map(|(file, trace)| {
                let of_trace = trace.kernel_names().iter().zip(0u32..);
                of_trace
                    .map(|(name, index)| {
                        *known.entry(&*name.demangled).or_insert_with(|| {
                            names.push((file, index));
                            names.len() as u32 - 1
                        })
                    })
                    .collect()
            })
            .collect();
        Self { kernels, numbers, names }
    }

    /// The demangled name behind [`Work::name`]; `None` for copies, fills and whole graphs.
    pub fn kernel_name<'r>(&self, run: &'r Run, name: u32) -> Option<&'r str> {
        let &(file, name) = self.names.get(name as usize)?;
        run.traces().get(file)?.kernel_names().get(name as usize).map(|n| &*n.demangled)
    }

    /// The role of a kernel name of a trace.
    pub fn kernel(&self, file: usize, name: u32) -> Role {
        self.kernels[file][name as usize]
    }

    /// An activity of a trace as the alignment takes it.
    #[inline]
    pub fn work(&self, file: usize, trace: &Trace, activity: &Activity) -> Work {
        let (name, role) = self.name_and_role(file, trace, activity);
        Work { name, role, stream: activity.stream, start: activity.start, end: activity.end }
    }

    fn name_and_role(&self, file: usize, trace: &Trace, activity: &Activity) -> (u32, Role) {
        let row = activity.row as usize;
        match activity.table {
            ActivityKind::Kernel => {
                let name = trace.kernels().name()[row];
                (self.numbers[file][name as usize], self.kernels[file][name as usize])
            }
            ActivityKind::Graph => (UNNAMED, Role::Other),
            ActivityKind::Memset => (UNNAMED + 1, Role::Fill),
            ActivityKind::Memcpy => match trace.memcpys().direction()[row] {
                CopyDirection::DeviceToDevice
                | CopyDirection::UnifiedDeviceToDevice
                | CopyDirection::PeerToPeer => (UNNAMED + 2, Role::Move),
                _ => (UNNAMED + 3, Role::HostCopy),
            },
        }
    }
}
