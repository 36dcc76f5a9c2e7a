# Shortcuts for cargo and cargo xtask. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-unit test-api test-gateway test-e2e tools lint mutants generate bench

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Run the demo: the operator on a whole cluster on this machine (requires root)
	@echo "The demo compiles the operator, starts Kubernetes on this machine, and runs an engine under load."
	@echo "It takes two minutes; the first time also some 5 minutes to compile, and 10 to build Kubernetes (make tools)."
	cargo xtask demo

demo-down: ## Remove everything that the demo created
	cargo xtask kube down --dir .local/demo

test: test-begin test-unit test-api test-gateway test-e2e ## Run every tier, quickest first

.PHONY: test-begin
test-begin:
	@echo "Four tiers of tests: unit, api, gateway, e2e (which needs root). They take about 15 minutes;"
	@echo "the first time also some 10 minutes to compile, and 10 to build Kubernetes (make tools)."

test-unit: ## Run the tests that need no cluster
	@echo "=== tier: unit ==="
	cargo xtask test unit

test-api: tools ## Run the tests against a real API server
	@echo "=== tier: api ==="
	cargo xtask test api

test-gateway: tools ## Run the gateway tests with the real Envoy
	@echo "=== tier: gateway ==="
	cargo xtask test gateway

test-e2e: tools ## Run the tests on a whole cluster with nodes and pods (requires root)
	@echo "=== tier: e2e ==="
	cargo xtask test e2e

tools: ## Build and download the pinned tools into a cache outside the source tree
	cargo xtask tools

lint: ## Check formatting, lints, crate boundaries, licences and generated files
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask lint-deps
	cargo xtask generate --check
	cargo xtask deny

mutants: ## Verify that the tests detect injected bugs in the decision code (half an hour)
	cargo xtask mutants

bench: tools ## Run the benchmarks and compare the results with the targets
	cargo xtask bench

generate: ## Update all generated files
	cargo xtask generate
