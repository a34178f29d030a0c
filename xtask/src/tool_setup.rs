//! `cargo xtask tools`: fetches the pinned binaries and says where they are.

use anyhow::Context;
use tools::{PtxasVersion, ResolveOptions, Tool, ToolKind, ToolSet, pins};

pub fn run(args: &[String]) -> anyhow::Result<()> {
    let options = ResolveOptions::default();
    let set = ToolSet::resolve(&options)?;
    for tool in [&set.ptxas, &set.nvdisasm, &set.cuobjdump] {
        show(tool);
    }
    for version in versions(args)? {
        let path = tools::fetch::ensure(&options.tools_folder(), &pins::ptxas(version))?;
        show(&Tool::at(ToolKind::Ptxas, &path, tools::Origin::Folder)?);
    }
    Ok(())
}

fn versions(args: &[String]) -> anyhow::Result<Vec<PtxasVersion>> {
    if args.iter().any(|arg| arg == "all") {
        return Ok(PtxasVersion::ALL.to_vec());
    }
    args.iter()
        .map(|arg| arg.parse().context("while reading the versions to fetch"))
        .collect()
}

fn show(tool: &Tool) {
    println!("{} {} {}", tool.kind, tool.version, tool.path.display());
}
