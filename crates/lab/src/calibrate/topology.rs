//! Which CPUs there are, and how far apart.

use std::collections::BTreeMap;

use super::{
    file::{Parameter, Value},
    threads,
};
use crate::{
    failure::Failure,
    machine::{line, numbered},
};

/// How far apart two CPUs are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Distance {
    /// Threads of one core.
    Core,
    /// Cores with a last-level cache in common.
    Cluster,
    /// Clusters of one socket.
    Socket,
    /// Different sockets.
    Remote,
}

/// A CPU: where it is, from the outside in.
#[derive(Clone, Debug)]
struct Cpu {
    number: usize,
    /// Socket, last-level cache and core, by names that are unique in what
    /// they are part of.
    place: [String; 3],
}

/// The CPUs that this process may use.
pub struct Host {
    cpus: Vec<Cpu>,
}

/// From the pair of one round to that of the next: a prime, so that few rounds
/// see pairs from all over the machine.
const STRIDE: usize = 7919;

impl Host {
    /// Asks the system.
    ///
    /// # Errors
    /// There are fewer than two CPUs: nothing moves between them.
    pub fn here() -> Result<Self, Failure> {
        let cpus: Vec<Cpu> = threads::usable().map_or_else(
            |_| Vec::new(),
            |all| all.into_iter().map(Cpu::new).collect(),
        );
        if cpus.len() < 2 {
            let count = cpus.len();
            return Err(Failure::Usage(format!(
                "calibrate needs 2 CPUs, and this process may use {count}: allow it more"
            )));
        }
        Ok(Self { cpus })
    }

    /// A CPU, another one in each round.
    pub fn cpu(&self, round: usize) -> usize {
        self.cpus[round % self.cpus.len()].number
    }

    /// Two CPUs at this distance, others in each round.
    pub fn pair(&self, distance: Distance, round: usize) -> Option<(usize, usize)> {
        let all = self
            .cpus
            .iter()
            .flat_map(|a| self.cpus.iter().map(move |b| (a, b)));
        let far = |(a, b): &(&Cpu, &Cpu)| a.number != b.number && a.distance(b) == distance;
        let pairs: Vec<_> = all.filter(far).map(|(a, b)| (a.number, b.number)).collect();
        let at = round.wrapping_mul(STRIDE).checked_rem(pairs.len())?;
        Some(pairs[at])
    }

    /// Two CPUs as near each other as different cores are, if there are such.
    pub fn neighbours(&self, round: usize) -> (usize, usize) {
        use Distance::{Cluster, Core, Remote, Socket};
        [Cluster, Socket, Remote, Core]
            .into_iter()
            .find_map(|distance| self.pair(distance, round))
            .expect("there are two CPUs")
    }

    /// The CPUs of the core that has the most.
    pub fn siblings(&self) -> Vec<usize> {
        let mut cores: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for cpu in &self.cpus {
            cores.entry(&cpu.place).or_default().push(cpu.number);
        }
        let most = cores.into_values().max_by_key(Vec::len);
        most.expect("there is a core")
    }

    /// Hardware threads of a core.
    pub fn threads_per_core(&self) -> u32 {
        Level::new(&self.cpus, 3).typical()
    }

    /// The parameters of the topology.
    pub fn parameters(&self) -> Vec<Parameter> {
        [
            "topology.sockets",
            "topology.clusters_per_socket",
            "topology.cores_per_cluster",
            "topology.threads_per_core",
        ]
        .into_iter()
        .enumerate()
        .map(|(depth, key)| Level::new(&self.cpus, depth).parameter(key))
        .collect()
    }
}

impl Cpu {
    fn new(number: usize) -> Self {
        let cpu = format!("/sys/devices/system/cpu/cpu{number}");
        let of = |file: &str| line(&format!("{cpu}/{file}"));
        let mut caches = numbered(&format!("{cpu}/cache"), "index");
        caches.sort_by_key(|name| (name.len(), name.clone())); // by their numbers
        let last = caches
            .last()
            .and_then(|c| line(&format!("{c}/shared_cpu_list")));
        let core = of("topology/core_cpus_list").or_else(|| of("topology/thread_siblings_list"));
        Self {
            number,
            place: [
                of("topology/physical_package_id").unwrap_or_default(),
                last.unwrap_or_default(),
                core.unwrap_or_else(|| number.to_string()),
            ],
        }
    }

    fn distance(&self, other: &Self) -> Distance {
        let same = |depth: usize| self.place[..depth] == other.place[..depth];
        match () {
            () if same(3) => Distance::Core,
            () if same(2) => Distance::Cluster,
            () if same(1) => Distance::Socket,
            () => Distance::Remote,
        }
    }
}

/// How many parts each whole has: sockets of the machine at depth 0, clusters
/// of each socket at 1, and so on to the threads of each core.
struct Level(Vec<u32>);

impl Level {
    fn new(cpus: &[Cpu], depth: usize) -> Self {
        let mut wholes: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for cpu in cpus {
            let parts = wholes.entry(&cpu.place[..depth]).or_default();
            let part = cpu.place.get(depth).cloned();
            let part = part.unwrap_or_else(|| cpu.number.to_string());
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        Self(wholes.values().map(|parts| parts.len() as u32).collect())
    }

    fn mean(&self) -> f64 {
        f64::from(self.0.iter().sum::<u32>()) / self.0.len() as f64
    }

    fn typical(&self) -> u32 {
        self.mean().round() as u32
    }

    fn parameter(&self, key: &'static str) -> Parameter {
        let mut source =
            String::from("/sys/devices/system/cpu, of the CPUs that this process may use");
        let bounds = (self.0.iter().min(), self.0.iter().max());
        if let (Some(least), Some(most)) = bounds
            && least != most
        {
            let mean = self.mean();
            source += &format!("; not regular: from {least} to {most}, {mean:.2} on average");
        }
        Parameter::given(key, Value::Count(self.typical()), &source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(places: &[[&str; 3]]) -> Host {
        let cpu = |(number, place): (usize, &[&str; 3])| Cpu {
            number,
            place: place.map(String::from),
        };
        Host {
            cpus: places.iter().enumerate().map(cpu).collect(),
        }
    }

    fn shape(host: &Host) -> [u32; 4] {
        [0, 1, 2, 3].map(|depth| Level::new(&host.cpus, depth).typical())
    }

    #[test]
    fn names_are_unique_in_what_they_are_part_of() {
        let host = host(&[
            ["0", "a", "0"],
            ["0", "a", "0"],
            ["0", "b", "0"],
            ["0", "b", "0"],
            ["1", "a", "0"],
            ["1", "a", "0"],
            ["1", "b", "0"],
            ["1", "b", "0"],
        ]);
        assert_eq!(shape(&host), [2, 2, 1, 2]);
        assert_eq!(host.siblings().len(), 2);
        assert_eq!(host.pair(Distance::Cluster, 0), None);
        for round in 0..9 {
            let (a, b) = host.pair(Distance::Remote, round).expect("two sockets");
            assert!((a < 4) != (b < 4));
            let (a, b) = host.neighbours(round);
            assert!(a / 2 != b / 2 && a / 4 == b / 4, "{a} and {b}");
        }
    }

    #[test]
    fn an_irregular_shape_is_rounded_and_said_to_be() {
        let host = host(&[
            ["0", "a", "0"],
            ["0", "a", "1"],
            ["0", "a", "2"],
            ["1", "b", "3"],
        ]);
        assert_eq!(shape(&host), [2, 1, 2, 1]);
        let text = format!("{:?}", host.parameters());
        assert!(
            text.contains("not regular: from 1 to 3, 2.00 on average"),
            "{text}"
        );
    }
}
