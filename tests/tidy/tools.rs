//! Each tool has its description beside it and its row in the table.

use std::collections::BTreeSet;
use std::fs;

use crate::sources::{self, root};

#[test]
fn every_tool_has_its_description_and_its_row() {
    let table = fs::read_to_string(root().join("src/tool/catalog.rs")).unwrap();
    let mut missing = Vec::new();
    let mut described = BTreeSet::new();
    for source in sources::server()
        .iter()
        .filter(|source| source.module.first().is_some_and(|first| first == "tool"))
    {
        for (at, found) in source.code.match_indices("impl Tool for ") {
            let name: String = source.code[at + found.len()..]
                .chars()
                .take_while(|each| each.is_alphanumeric())
                .collect();
            let folder = root().join(&source.path).with_file_name("");
            let texts: Vec<&str> = source
                .text
                .split("include_str!(\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .filter(|file| {
                    fs::read_to_string(folder.join(file)).is_ok_and(|text| !text.trim().is_empty())
                })
                .collect();
            if texts.is_empty() {
                missing.push(format!("{name}: {} includes no description", source.path));
            }
            described.extend(
                texts
                    .iter()
                    .map(|file| sources::relative(&folder.join(file))),
            );
            if !table.contains(&format!("{name}::")) && !table.contains(&format!("{name} {{")) {
                missing.push(format!("{name}: no row in src/tool/catalog.rs"));
            }
        }
    }
    for path in sources::files("src/tool", ".md") {
        let path = sources::relative(&path);
        if !described.contains(&path) {
            missing.push(format!("{path}: no tool beside it"));
        }
    }
    assert!(!described.is_empty(), "no tools found");
    assert!(missing.is_empty(), "{missing:#?}");
}
