// flotilla funding data and inspect: a market as files.
#include <fmt/format.h>

#include <memory>

#include "flotilla/core/activity.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/funding/commands/commands.h"
#include "flotilla/domains/funding/market/facts.h"
#include "flotilla/domains/funding/market/files.h"
#include "flotilla/domains/funding/market/synthetic.h"
#include "flotilla/domains/funding/market/time_text.h"
#include "flotilla/report/text_table.h"

namespace flotilla {
namespace {

Json facts_json(const funding::Market& market, const funding::MarketFacts& facts) {
  Json features = Json::object();
  for (size_t i = 0; i < funding::kFeatures; ++i) {
    features[funding::kFeatureNames[i]] = {{"mean", facts.features.mean[i]},
                                           {"std", facts.features.deviation[i]}};
  }
  return {{"begin", funding::time_text(market.begin())},
          {"days", facts.times / double{funding::kStepsPerDay}},
          {"symbols", facts.symbols},
          {"rows", facts.rows},
          {"rows_per_time", facts.rows_per_time},
          {"both_directions", facts.both_directions},
          {"lowest_price", facts.lowest_price},
          {"highest_price", facts.highest_price},
          {"lowest_rate", facts.lowest_rate},
          {"highest_rate", facts.highest_rate},
          {"features", features}};
}

void print_facts(const funding::Market& market, const funding::MarketFacts& facts) {
  display(fmt::format("{:.2f} days from {}, {}\n", facts.times / double{funding::kStepsPerDay},
                      funding::time_text(market.begin()), counted(facts.symbols, "symbol")));
  display(
      fmt::format("{} rows of the scanner, {:.1f} at a time; {} of symbols in both directions\n",
                  grouped(facts.rows), facts.rows_per_time, grouped(facts.both_directions)));
  display(fmt::format("prices {:.4g} to {:.4g} USD, rates of payments {:.4g} to {:.4g}\n\n",
                      facts.lowest_price, facts.highest_price, facts.lowest_rate,
                      facts.highest_rate));
  std::vector<std::vector<std::string>> rows = {{"feature of a row", "mean", "std"}};
  for (size_t i = 0; i < funding::kFeatures; ++i) {
    rows.push_back({funding::kFeatureNames[i], fmt::format("{:.5g}", facts.features.mean[i]),
                    fmt::format("{:.5g}", facts.features.deviation[i])});
  }
  display(text_table(rows, terminal_width(Stream::kOut)));
}

struct DataArguments {
  funding::SyntheticOptions options;
  std::string directory;
  bool gzip = false, json = false;
};

void write_data(const DataArguments& arguments) {
  const Activity making("making a market");
  const funding::Market market = make_market(arguments.options);
  write_market(market, arguments.directory,
               arguments.gzip ? funding::Packing::kGzipped : funding::Packing::kPlain);
  const funding::MarketFacts facts = facts_of(market);
  if (arguments.json) return display_data(facts_json(market, facts).dump() + "\n");
  print_facts(market, facts);
}

// The short average of the gap is a part, the long ones are percent: some collectors mix them up.
bool looks_like_percent(const funding::MarketFacts& facts) {
  constexpr size_t kSpread30 = 6, kSpread24h = 7;
  return facts.rows > 0 &&
         facts.features.deviation[kSpread30] > 0.1 * facts.features.deviation[kSpread24h];
}

// What a trader should look at before he trusts it.
void print_doubts(const funding::FileNotes& notes, const funding::MarketFacts& facts) {
  std::string text;
  if (looks_like_percent(facts)) {
    text += "  spread30SampleAvg looks like percent, expected a part of the price\n";
  }
  const auto add = [&text](int64_t count, const char* what) {
    if (count > 0) text += fmt::format("  {} {}\n", grouped(count), what);
  };
  add(notes.filled_prices, "times without a price: the one before was taken");
  add(notes.unpaid, "moments of payment with a rate of 0, taken as none");
  add(notes.missing, "numbers of rows that are empty or not finite, shown as 0 or as 100");
  add(notes.odd_prices, "rows whose entry price is more than 1 % off the price file");
  add(notes.odd_aprs, "rows whose APR are not 1095 times their profits of 8 hours");
  add(notes.late, "next payments that are not after their row");
  add(notes.unscheduled, "next payments that are not the next multiple of their interval");
  add(notes.between, "payments between those of the interval that rows say, which nobody gets");
  if (!notes.partial.empty()) {
    text += fmt::format("  {} with prices for some of the days only: {}\n",
                        counted(notes.partial.size(), "symbol"), fmt::join(notes.partial, ", "));
  }
  display(text.empty() ? "\nnothing looks wrong\n" : "\nto be looked at:\n" + text);
}

void inspect(const std::string& directory, bool json) {
  funding::FileNotes notes;
  const auto market = [&] {
    const Activity reading("reading");
    return funding::read_market(directory, &notes);
  }();
  const funding::MarketFacts facts = facts_of(market);
  if (!json) {
    print_facts(market, facts);
    return print_doubts(notes, facts);
  }
  Json line = facts_json(market, facts);
  line["payments"] = notes.payments;
  line["unpaid"] = notes.unpaid;
  line["filled_prices"] = notes.filled_prices;
  line["missing_numbers"] = notes.missing;
  line["odd_prices"] = notes.odd_prices;
  line["odd_aprs"] = notes.odd_aprs;
  line["late_payments"] = notes.late;
  line["unscheduled_payments"] = notes.unscheduled;
  line["payments_between"] = notes.between;
  line["partial_symbols"] = notes.partial;
  line["spread_in_percent"] = looks_like_percent(facts);
  display_data(line.dump() + "\n");
}

}  // namespace

void add_funding_data(Command& funding) {
  Command& command = funding.add("data", "make up a market and write it as tables");
  auto arguments = std::make_shared<DataArguments>();
  DataArguments& a = *arguments;
  command.option("--days", a.options.days, "of the market (default 60)")
      .range(1, funding::kMostDays);
  command.option("--symbols", a.options.symbols, "coins in it (default 100)")
      .range(1, funding::kMostSymbols);
  command.option("--seed", a.options.seed, "of everything in it (default 1)");
  command.option("--out", a.directory, "directory of the tables").required();
  command.flag("--gzip", a.gzip, "the tables as .csv.gz");
  command.flag("--json", a.json, "print one JSON object on stdout");
  command.action([arguments] { write_data(*arguments); });
}

void add_funding_inspect(Command& funding) {
  Command& command =
      funding.add("inspect", "read a market, say what is in it and what looks wrong");
  auto arguments = std::make_shared<DataArguments>();
  command.option("directory", arguments->directory, "of a market, as `funding data` writes it")
      .required();
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([arguments] { inspect(arguments->directory, arguments->json); });
}

}  // namespace flotilla
