#include "flotilla/command/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstdlib>
#include <limits>
#include <optional>
#include <sstream>
#include <tuple>
#include <type_traits>

#include "flotilla/core/error.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

// Where CLI11 begins to say what an option does, and where its lines go on.
constexpr size_t kHelpColumn = 30;

// Lists are folded at their second column, the rest as text.
void show_help(const std::string& help) {
  const size_t width = terminal_width(Stream::kOut);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    display(fold(line, width, line.starts_with(' ') ? kHelpColumn : 0) + "\n");
  }
}

std::string out_of_range(const std::string& text, const auto& low, const auto& high) {
  return fmt::format("Value {} not in range {} to {}", text, low, high);
}

// CLI11's range has other words in every version, and "nan" is in all of its ranges.
template <class Number>
CLI::Validator within(Number low, Number high) {
  const CLI::Range range(low, high);
  const auto fault_of = [low, high](std::string& text) {
    Number number{};
    const bool inside = CLI::detail::lexical_cast(text, number) && number >= low && number <= high;
    return inside ? std::string() : out_of_range(text, low, high);
  };
  return {fault_of, range.get_description()};
}

// What an option holds one of, or several.
template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
requires(!std::is_same_v<T, std::string> &&
         requires { typename T::value_type; }) struct ValueOf<T> {
  using Type = typename T::value_type;
};

// What CLI11 would take for another number: those below an unsigned type wrap, those above any
// type become its largest one.
template <std::integral Number>
std::string fault_of_integer(const std::string& text) {
  using Limits = std::numeric_limits<Number>;
  errno = 0;
  if constexpr (std::is_signed_v<Number>) {
    const long long number = std::strtoll(text.c_str(), nullptr, 0);
    const bool fits = errno != ERANGE && number >= Limits::min() && number <= Limits::max();
    return fits ? "" : out_of_range(text, Limits::min(), Limits::max());
  } else {
    std::ignore = std::strtoull(text.c_str(), nullptr, 0);
    const bool fits = errno != ERANGE && !text.starts_with('-');
    return fits ? "" : out_of_range(text, Limits::min(), Limits::max());
  }
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::range(int low, int high) {
  option_->check(within(low, high));
  return *this;
}

Option& Option::range(int64_t low, int64_t high) {
  option_->check(within(low, high));
  return *this;
}

Option& Option::range(double low, double high) {
  option_->check(within(low, high));
  return *this;
}

Option& Option::choices(const std::vector<std::string>& allowed) {
  option_->check(CLI::IsMember(allowed));
  return *this;
}

Option& Option::check(std::function<std::string(const std::string&)> fault_of) {
  option_->check(std::move(fault_of));
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::comma_separated() {
  option_->delimiter(',')->allow_extra_args(false);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Command::Command(const Texts& texts)
    : owned_(std::make_unique<CLI::App>(texts.description, texts.name)), app_(owned_.get()) {
  app_->set_version_flag("--version", texts.version);
  app_->footer(texts.footer);
}

Command::Command(CLI::App* app) : app_(app) {}

Command::~Command() = default;

Command& Command::add(const std::string& name, const std::string& summary) {
  app_->require_subcommand(1);
  children_.push_back(std::unique_ptr<Command>(new Command(app_->add_subcommand(name, summary))));
  return *children_.back();
}

const Command* Command::child(const std::string& name) const {
  const auto found = std::ranges::find_if(
      children_, [&name](const auto& each) { return each->app_->get_name() == name; });
  return found == children_.end() ? nullptr : found->get();
}

Command& Command::find(const std::string& name) const {
  const Command* found = child(name);
  if (found == nullptr) throw Error(ErrorCode::kInternal, "there is no command '" + name + "'");
  return *const_cast<Command*>(found);
}

template <class T>
requires(!std::invocable<T, int> &&
         !std::invocable<T, std::string>) Option Command::option(const std::string& names, T& value,
                                                                 const std::string& help) {
  CLI::Option* option = app_->add_option(names, value, help);
  using Value = typename ValueOf<T>::Type;
  if constexpr (std::is_integral_v<Value>) option->check(&fault_of_integer<Value>);
  return Option(option);
}

template Option Command::option(const std::string&, std::string&, const std::string&);
template Option Command::option(const std::string&, int&, const std::string&);
template Option Command::option(const std::string&, int64_t&, const std::string&);
template Option Command::option(const std::string&, uint64_t&, const std::string&);
template Option Command::option(const std::string&, double&, const std::string&);
template Option Command::option(const std::string&, std::optional<std::string>&,
                                const std::string&);
template Option Command::option(const std::string&, std::optional<int>&, const std::string&);
template Option Command::option(const std::string&, std::optional<int64_t>&, const std::string&);
template Option Command::option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::option(const std::string&, std::vector<int>&, const std::string&);

Option Command::option(const std::string& names, std::function<void(const std::string&)> take,
                       const std::string& help) {
  return Option(app_->add_option_function<std::string>(names, take, help));
}

Option Command::option(const std::string& names, std::function<void(int)> take,
                       const std::string& help) {
  return Option(app_->add_option_function<int>(names, take, help)->check(&fault_of_integer<int>));
}

Option Command::flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

Option Command::flag(const std::string& name, int& times_given, const std::string& help) {
  return Option(app_->add_flag(name, times_given, help));
}

Option Command::flag(const std::string& name, std::function<void()> when_given,
                     const std::string& help) {
  return Option(app_->add_flag_callback(name, std::move(when_given), help));
}

Option Command::flag(const std::string& names, std::function<void(bool)> take,
                     const std::string& help) {
  const auto take_count = [take = std::move(take)](int64_t times) { take(times > 0); };
  return Option(app_->add_flag_function(names, take_count, help));
}

bool Command::given(const std::string& option) const { return app_->count(option) > 0; }

void Command::show_when(const Option& option, std::function<bool()> shown) {
  shown_when_.emplace_back(option.option_, std::move(shown));
}

void Command::settings(std::function<bool(const std::string& key)> is_setting) {
  is_setting_ = std::move(is_setting);
}

void Command::hide_options() const {
  for (const auto& [option, shown] : shown_when_) {
    if (!shown()) option->group("");  // to CLI11: hidden
  }
  for (const auto& each : children_) each->hide_options();
}

void Command::action(std::function<void()> action) { app_->callback(std::move(action)); }

std::pair<const Command*, int> Command::named(int argc, char** argv) const {
  const Command* command = this;
  int at = 1;
  for (; at < argc; ++at) {
    const Command* next = command->child(argv[at]);
    if (next == nullptr) break;
    command = next;
  }
  return {command, at};
}

std::vector<std::string> Command::option_names() const {
  std::vector<std::string> names{"--help"};
  for (const CLI::Option* option : app_->get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The arguments, with options that are written with underscores as they are called.
std::vector<std::string> Command::with_dashes(int argc, char** argv) const {
  std::vector<std::string> arguments(argv, argv + argc);
  const auto [command, first] = named(argc, argv);
  const std::vector<std::string> options = command->option_names();
  for (auto at = static_cast<size_t>(first); at < arguments.size() && arguments[at] != "--"; ++at) {
    std::string& argument = arguments[at];
    const size_t end = std::min(argument.find('='), argument.size());
    std::string dashed = argument.substr(0, end);
    std::ranges::replace(dashed, '_', '-');
    if (std::ranges::count(options, dashed) > 0) argument.replace(0, end, dashed);
  }
  return arguments;
}

// What is wrong with a command or an option that does not exist, or "". CLI11 would say only that
// it was not expected.
std::string Command::unknown(int argc, char** argv) const {
  auto [command, at] = named(argc, argv);
  if (!command->children_.empty() && (at == argc || argv[at][0] != '-')) {
    std::vector<std::string> names;
    for (const auto& each : command->children_) names.push_back(each->app_->get_name());
    const std::string what =
        at == argc ? std::string("a command is missing")
                   : fmt::format("unknown command '{}'{}", argv[at], did_you_mean(argv[at], names));
    return fmt::format("{} (commands: {})", what, join(names, ", "));
  }
  const std::vector<std::string> options = command->option_names();
  for (; at < argc && std::string_view(argv[at]) != "--"; ++at) {
    const std::string name = std::string(argv[at]).substr(0, std::string_view(argv[at]).find('='));
    if (name.starts_with("--") && std::ranges::count(options, name) == 0) {
      std::string key = name.substr(2);
      std::ranges::replace(key, '-', '_');
      const bool is_setting = command->is_setting_ && command->is_setting_(key);
      return fmt::format("unknown option '{}'{}", name,
                         is_setting ? "; as a setting, without dashes: " + key + "=VALUE"
                                    : did_you_mean(name, options));
    }
  }
  return "";
}

void Command::parse(int argc, char** argv) {
  std::vector<std::string> arguments = with_dashes(argc, argv);
  std::vector<char*> pointers;
  for (std::string& each : arguments) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  argv = pointers.data();
  if (const std::string fault = unknown(argc, argv); !fault.empty()) {
    throw Error(ErrorCode::kUsage, fault);
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    hide_options();
    show_help(app_->help());
  } catch (const CLI::Success& request) {  // --version
    app_->exit(request);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::kUsage, error.what());
  }
}

}  // namespace flotilla
