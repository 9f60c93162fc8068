//! Where CPUs lie: hardware threads in cores, cores in clusters with a cache in
//! common, clusters in sockets. CPUs are numbered in that order.

use std::ops::Range;

use crate::machine::{Costs, Machine, Picos};

/// The number of a CPU: a hardware thread.
pub(crate) type Cpu = usize;
/// The number of a core.
pub(crate) type Core = usize;

/// How CPUs are grouped.
pub(crate) struct Topology {
    threads: usize,
    cluster: usize,
    socket: usize,
    cores: usize,
}

impl Topology {
    pub(crate) fn new(machine: &Machine) -> Self {
        let cluster = machine.cores_per_cluster;
        Self {
            threads: machine.threads_per_core,
            cluster,
            socket: cluster * machine.clusters_per_socket,
            cores: machine.cores(),
        }
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cores * self.threads
    }

    pub(crate) fn core(&self, cpu: Cpu) -> Core {
        cpu / self.threads
    }

    /// The CPUs of a core.
    pub(crate) fn siblings(&self, core: Core) -> Range<Cpu> {
        core * self.threads..(core + 1) * self.threads
    }

    /// The cores of a core's cluster.
    pub(crate) fn cluster(&self, core: Core) -> Range<Core> {
        around(core, self.cluster)
    }

    /// The cores of a core's socket.
    pub(crate) fn socket(&self, core: Core) -> Range<Core> {
        around(core, self.socket)
    }

    /// The CPUs of these cores.
    pub(crate) fn cpus_of(&self, cores: Range<Core>) -> Range<Cpu> {
        cores.start * self.threads..cores.end * self.threads
    }

    /// How long a line takes from one core to another.
    pub(crate) fn transfer(&self, costs: &Costs, from: Core, to: Core) -> Picos {
        if from == to {
            costs.hit
        } else if self.cluster(to).contains(&from) {
            costs.cluster
        } else if self.socket(to).contains(&from) {
            costs.socket
        } else {
            costs.remote
        }
    }

    /// The CPUs in the order in which a system fills an idle machine: sockets
    /// in turn, and in each a core of its own for each task while there is one.
    pub(crate) fn spread(&self) -> Vec<Cpu> {
        let mut order: Vec<Cpu> = (0..self.cpus()).collect();
        let place = |cpu: &Cpu| {
            let core = self.core(*cpu);
            (cpu % self.threads, core % self.socket, core / self.socket)
        };
        order.sort_by_key(place);
        order
    }
}

fn around(core: Core, size: usize) -> Range<Core> {
    let first = core / size * size;
    first..first + size
}
