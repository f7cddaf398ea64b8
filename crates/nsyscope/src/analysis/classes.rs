//! The category of every kernel name of a run, as dense numbers.

use std::collections::BTreeMap;

use crate::capture::{CopyDirection, KernelName, Trace};
use crate::kernel::{Category, Classification, Classifier, RuleId};
use crate::run::Run;

/// Names that a thread classifies at a time: a captured engine has some hundred, and the first of a
/// kind takes a hundred times as long as the others, as its rule is compiled.
const NAMES: usize = 16;

/// What every name of a run is. Each name is classified once.
#[derive(Clone, Debug)]
pub struct Classes {
    categories: Vec<Category>,
    /// For each trace, the category and rule of each kernel name.
    kernels: Vec<Vec<(u32, Option<RuleId>)>>,
    graph: u32,
    memset: u32,
    copies: BTreeMap<CopyDirection, u32>,
}

impl Classes {
    /// Classifies the kernel names of a run.
    pub fn new(run: &Run, classifier: &Classifier) -> Self {
        let parts: Vec<(usize, &[KernelName])> = run
            .traces()
            .iter()
            .enumerate()
            .flat_map(|(file, trace)| {
                trace.kernel_names().chunks(NAMES).map(move |names| (file, names))
            })
            .collect();
        let classified = run.threads().map(parts.len(), |part| {
            let names = parts[part].1.iter();
            names
                .map(|name| classifier.classify(&name.demangled, name.mangled.as_deref()))
                .collect::<Vec<_>>()
        });
        let mut found: Vec<Vec<Classification>> = vec![Vec::new(); run.traces().len()];
        for ((file, _), classes) in parts.iter().zip(classified) {
            found[*file].extend(classes);
        }
        let mut categories: Vec<Category> = found
            .iter()
            .flatten()
            .map(|class| class.category.clone())
            .chain(Category::FIXED)
            .collect();
        categories.sort_unstable();
        categories.dedup();
        let index =
            |category: &Category| categories.binary_search(category).unwrap_or_default() as u32;
        let kernels = found
            .into_iter()
            .map(|classes| {
                classes.into_iter().map(|class| (index(&class.category), class.rule)).collect()
            })
            .collect();
        let graph = index(&Category::WHOLE_GRAPH);
        let memset = index(&Category::MEMSET);
        let copies = CopyDirection::ALL
            .into_iter()
            .map(|direction| (direction, index(&copy_category(direction))))
            .collect();
        Self { categories, kernels, graph, memset, copies }
    }

    /// The categories, in order of text; the numbers of this type index them.
    pub fn categories(&self) -> &[Category] {
        &self.categories
    }

    /// For each category whether its kernels communicate between ranks.
    pub(crate) fn communicate(&self) -> Vec<bool> {
        self.categories.iter().map(|category| category.family() == "comm").collect()
    }

    /// The category number of a kernel name of a trace.
    #[inline]
    pub fn kernel(&self, file: usize, name: u32) -> u32 {
        self.kernels[file][name as usize].0
    }

    /// The rule that decided a kernel name of a trace; `None` where none fits.
    pub fn rule(&self, file: usize, name: u32) -> Option<&RuleId> {
        self.kernels[file][name as usize].1.as_ref()
    }

    /// The category number of any activity of a trace.
    #[inline]
    pub fn activity(&self, file: usize, trace: &Trace, activity: &super::Activity) -> u32 {
        self.row(file, trace, activity.table, activity.row)
    }

    /// The category number of a row of one of a trace's tables.
    #[inline]
    pub fn row(&self, file: usize, trace: &Trace, table: super::ActivityKind, row: u32) -> u32 {
        let row = row as usize;
        match table {
            super::ActivityKind::Kernel => self.kernel(file, trace.kernels().name()[row]),
            super::ActivityKind::Graph => self.graph,
            super::ActivityKind::Memcpy => self.copies[&trace.memcpys().direction()[row]],
            super::ActivityKind::Memset => self.memset,
        }
    }
}

/// The category of copies of a direction.
pub(crate) fn copy_category(direction: CopyDirection) -> Category {
    match direction {
        CopyDirection::HostToDevice | CopyDirection::UnifiedHostToDevice => Category::MEMCPY_HTOD,
        CopyDirection::DeviceToHost | CopyDirection::UnifiedDeviceToHost => Category::MEMCPY_DTOH,
        CopyDirection::DeviceToDevice | CopyDirection::UnifiedDeviceToDevice => {
            Category::MEMCPY_DTOD
        }
        CopyDirection::HostToHost => Category::MEMCPY_HTOH,
        CopyDirection::PeerToPeer => Category::MEMCPY_PTOP,
        CopyDirection::Other => Category::MEMCPY_UNKNOWN,
    }
}
