//! What a measurement was made on. Everything is as the system says; what it
//! does not say is left out.

use std::{
    collections::BTreeSet, fmt, fs, process::Command, thread::available_parallelism,
    time::SystemTime,
};

use serde::Serialize;

use crate::measure;

/// The machine, its system and this program.
#[derive(Serialize)]
pub struct Machine {
    date_utc: String,
    lockyard: &'static str,
    commit: Option<&'static str>,
    rustc: Option<&'static str>,
    arch: &'static str,
    cpu: Option<String>,
    /// The CPUs that are online, as the kernel writes sets.
    cpus_online: Option<String>,
    /// How many of them this process may use at once (affinity, quota).
    cpus_usable: usize,
    topology: Topology,
    memory_kib: Option<u64>,
    kernel: Option<String>,
    libc: Option<String>,
    /// `Some(true)` when the CPU says that a hypervisor runs it.
    virtualised: Option<bool>,
    hardware: Option<String>,
    governor: Option<String>,
    turbo_off: Option<String>,
    load_average: Option<String>,
    /// Nanoseconds that a unit of work takes.
    pub work_unit_ns: f64,
    /// Nanoseconds that reading the clock twice takes, which every wait includes.
    pub clock_ns: u64,
}

/// How many of each the kernel lists.
#[derive(Serialize)]
struct Topology {
    sockets: usize,
    cores: usize,
    threads: usize,
    nodes: usize,
    last_level_caches: usize,
}

impl Machine {
    /// Asks the system, and measures what it does not tell.
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            date_utc: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            lockyard: env!("CARGO_PKG_VERSION"),
            commit: option_env!("LOCKYARD_COMMIT"),
            rustc: option_env!("LOCKYARD_RUSTC"),
            arch: std::env::consts::ARCH,
            cpu: field(&cpuinfo, "model name"),
            cpus_online: line("/sys/devices/system/cpu/online"),
            cpus_usable: available_parallelism().map_or(1, usize::from),
            topology: Topology::here(),
            memory_kib: memory_kib(),
            kernel: line("/proc/sys/kernel/osrelease"),
            libc: libc(),
            virtualised: field(&cpuinfo, "flags")
                .map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            hardware: hardware(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            turbo_off: line("/sys/devices/system/cpu/intel_pstate/no_turbo"),
            load_average: line("/proc/loadavg"),
            work_unit_ns: measure::work_unit_ns(),
            clock_ns: measure::clock_ns(),
        }
    }
}

impl fmt::Display for Machine {
    /// The machine in a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu.as_deref().unwrap_or(self.arch);
        write!(f, "{cpu}, {} CPUs", self.cpus_usable)?;
        if self.virtualised == Some(true) {
            write!(f, " (virtual)")?;
        }
        if let Some(kernel) = &self.kernel {
            write!(f, ", Linux {kernel}")?;
        }
        if let Some(libc) = &self.libc {
            write!(f, ", {libc}")?;
        }
        Ok(())
    }
}

impl Topology {
    fn here() -> Self {
        let mut sockets = BTreeSet::new();
        let mut cores = BTreeSet::new();
        let mut caches = BTreeSet::new();
        let mut threads = 0;
        for cpu in numbered("/sys/devices/system/cpu", "cpu") {
            let of = |file: &str| line(&format!("{cpu}/{file}"));
            let Some(socket) = of("topology/physical_package_id") else {
                continue; // offline
            };
            threads += 1;
            cores.insert((socket.clone(), of("topology/core_id")));
            sockets.insert(socket);
            let last = numbered(&format!("{cpu}/cache"), "index").into_iter().max();
            caches.extend(last.and_then(|cache| line(&format!("{cache}/shared_cpu_list"))));
        }
        Self {
            sockets: sockets.len(),
            cores: cores.len(),
            threads,
            nodes: numbered("/sys/devices/system/node", "node").len(),
            last_level_caches: caches.len(),
        }
    }
}

/// The entries of `directory` that are called `stem` and a number.
pub fn numbered(directory: &str, stem: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| {
            let number = name.strip_prefix(stem);
            number.is_some_and(|n| n.parse::<u32>().is_ok())
        })
        .map(|name| format!("{directory}/{name}"))
        .collect()
}

/// The first line of a file, `None` if it is empty or there is none.
pub fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.into())
}

/// The first `name : value` of `text`.
fn field(text: &str, name: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(key, value)| (key.trim(), value.trim()))
        .find_map(|(key, value)| (key == name).then(|| value.into()))
}

fn memory_kib() -> Option<u64> {
    let total = field(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")?;
    total.trim_end_matches(" kB").parse().ok()
}

/// The C library, whose mutexes are among the rivals.
fn libc() -> Option<String> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let line = text.trim();
    (!line.is_empty()).then(|| line.into())
}

fn hardware() -> Option<String> {
    let vendor = line("/sys/class/dmi/id/sys_vendor");
    let product = line("/sys/class/dmi/id/product_name");
    let both: Vec<String> = vendor.into_iter().chain(product).collect();
    (!both.is_empty()).then(|| both.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 17\nmodel name\t: Some CPU: fast\nmodel name\t: other\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU: fast"));
        assert_eq!(field(text, "name"), None);
    }
}
