// The grammar of device names: DEV=target[;target...], target =
// [IFACE+]DEVICE[:INDEX][:RENDERER[:ARCH]]. Called by Device::get and get_default; a pure
// function of the text and of the names that exist. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// `NAME(argument)+` before the device: something that stands between the engine and it.
struct InterfaceSpec {
  std::string name;
  std::string argument;  ///< what stood in parentheses
  friend bool operator==(const InterfaceSpec&, const InterfaceSpec&) = default;
};

/// One target, names in the spelling of DeviceNames.
struct DeviceSpec {
  std::vector<InterfaceSpec> interfaces;  ///< outermost first
  std::string device;
  int index = 0;
  std::string renderer;  ///< upper case, not looked up; empty: the device's default
  std::string arch;      ///< as written, all after the renderer; empty: this machine's
  std::string path;      ///< for devices that take a path
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// What may be named.
struct DeviceNames {
  std::vector<std::string> devices;
  std::vector<std::string> path_devices;  ///< of `devices`: what follows `NAME:` is a path
  std::vector<std::string> interfaces;
};

/// Names are case-blind; a field of digits is an index; an empty renderer is allowed. Throws
/// kInvalidArgument that quotes the text, with the nearest right name for a misspelt one.
DeviceSpec parse_device_spec(std::string_view text, const DeviceNames& names);

/// The `;`-separated list of setting DEV; none of its entries may be empty.
std::vector<DeviceSpec> parse_device_list(std::string_view text, const DeviceNames& names);

/// "; did you mean 'X'?" or "", then the list: the end of an error about a misspelt name.
std::string suggest_name(std::string_view name, const std::vector<std::string>& names,
                         std::string_view list_title);

}  // namespace tenon
